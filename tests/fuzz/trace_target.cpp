// The reader of traces: a line is a call, which can be written and read again, or a UsageError.
#include "core/errors.hpp"
#include "registry/tuning/call_trace.hpp"
#include "tests/fuzz/fuzz_target.hpp"

using kiln::fuzz::require;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  kiln::TracedCall call;
  try {
    call = kiln::parse_call(kiln::fuzz::text_of(data, size));
  } catch (const kiln::UsageError&) {
    return 0;
  }
  const std::string line = kiln::format_call(call);
  require(line.find('\n') == std::string::npos, "a call is one line");
  require(kiln::format_call(kiln::parse_call(line)) == line, "a call stays as it is");
  return 0;
}
