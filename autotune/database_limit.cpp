#include "autotune/database_limit.hpp"

#include <algorithm>
#include <memory>
#include <string>
#include <unordered_set>
#include <utility>

namespace kiln {
namespace {

/// Of a separator, a line's end and what a damaged entry is indented by.
constexpr std::size_t kAround = 8;

std::size_t bytes_of(const TuningEntry& entry) {
  return format_entry(entry).size() + kAround;
}

std::size_t bytes_of(const std::vector<DamagedEntry>& damaged) {
  std::size_t bytes = 0;
  for (const DamagedEntry& one : damaged) bytes += one.text.size() + kAround;
  return bytes;
}

/// Without what it can do without.
TuningEntry bare(const TuningEntry& entry) {
  TuningEntry reduced = entry;
  std::erase_if(reduced.tried, [&](const CandidateEvidence& tried) {
    return tried.config != entry.config && tried.config != entry.default_config;
  });
  return reduced;
}

}  // namespace

void shrink_to(std::size_t most_bytes, EntrySet& entries, std::vector<DamagedEntry>& damaged) {
  struct Sized {
    std::shared_ptr<const TuningEntry> entry;
    std::size_t bytes;
  };
  std::vector<Sized> oldest_first;
  std::size_t total = format_document({}).size() + bytes_of(damaged);
  for (auto& entry : entries.sorted()) {
    const std::size_t bytes = bytes_of(*entry);
    total += bytes;
    oldest_first.push_back({std::move(entry), bytes});
  }
  std::ranges::stable_sort(oldest_first, {}, [](const Sized& one) { return one.entry->date_unix_s; });

  for (Sized& one : oldest_first) {
    if (total <= most_bytes) return;
    TuningEntry reduced = bare(*one.entry);
    if (reduced.tried.size() == one.entry->tried.size()) continue;
    total -= one.bytes;
    one.bytes = bytes_of(reduced);
    total += one.bytes;
    entries.add(std::move(reduced), EntrySet::Conflict::offered_wins);
  }
  if (total <= most_bytes) return;
  total -= bytes_of(damaged);
  damaged.clear();
  std::unordered_set<std::string> unwanted;
  for (auto one = oldest_first.begin(); total > most_bytes && one != oldest_first.end(); ++one) {
    total -= one->bytes;
    unwanted.insert(hash_of(one->entry->key).hex());
  }
  entries.remove_if([&](const TuningEntry& entry) { return unwanted.contains(hash_of(entry.key).hex()); });
}

}  // namespace kiln
