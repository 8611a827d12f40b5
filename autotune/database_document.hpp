#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "autotune/tuning_entry.hpp"

namespace kiln {

inline constexpr int kTuningSchemaVersion = 1;
/// Above any database, which is kept below it; keeps a nonsense file from filling memory.
inline constexpr std::size_t kMaxTuningDocumentBytes = std::size_t{64} << 20;

/// An element of a document that is no entry of this version.
struct DamagedEntry {
  std::string where;   ///< "entry 3 (matmul sm90 (bf16, bf16) 4096x4096, 4096x1024)", "entry 3 (from line 120)"
  std::string reason;  ///< "'median_us' is \"fast\"; expected a number above 0"
  std::string text;    ///< its JSON; empty when it has no meaning as such
};

/// The text form of tuned choices: what a database file holds, and what export writes.
struct TuningDocument {
  std::vector<TuningEntry> entries;
  std::vector<DamagedEntry> damaged;
  std::string problem;         ///< of the whole: no JSON, no database; empty when there is none
  bool is_from_later = false;  ///< of a schema that this version does not know, and must not overwrite
};

/// JSON for people: one field per line, one line per tried config and per past measurement. Damaged entries that are
/// JSON are written as they came, so that what a hand broke a hand can mend.
std::string format_document(const TuningDocument& document);

/// Never throws for what the text holds. Entries are read one by one, and a damaged one costs no other. Where the text
/// as a whole is no JSON (truncated, a hand's slip, invalid UTF-8, a key given twice, a number no double holds, nesting
/// without end), the entries that format_document's layout sets apart are read on their own. Fields of an entry that
/// this version does not know are kept (TuningEntry::other_fields); unknown fields elsewhere are ignored.
TuningDocument parse_document(std::string_view text);

/// Whether it begins as format_document's texts do.
bool begins_as_document(std::string_view text) noexcept;

/// One entry as it stands in a document.
std::string format_entry(const TuningEntry& entry);

}  // namespace kiln
