// The reader of tuning databases: it never throws, and what it takes is sound enough to be written and read again.
#include "autotune/database_document.hpp"
#include "tests/fuzz/fuzz_target.hpp"

using kiln::fuzz::require;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const kiln::TuningDocument read = kiln::parse_document(kiln::fuzz::text_of(data, size));
  if (read.is_from_later) return 0;
  const kiln::TuningDocument again = kiln::parse_document(kiln::format_document(read));
  require(again.problem.empty(), "a document that was written can be read");
  require(again.entries.size() == read.entries.size(), "no entry is lost by writing");
  for (std::size_t i = 0; i < read.entries.size(); ++i)
    require(kiln::format_entry(again.entries[i]) == kiln::format_entry(read.entries[i]), "an entry stays as it is");
  return 0;
}
