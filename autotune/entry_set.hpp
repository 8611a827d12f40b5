#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "autotune/entry_merge.hpp"
#include "autotune/tuning_entry.hpp"

namespace kiln {

/// How an entry fared that was offered to others.
struct MergeOutcome {
  enum class Kind {
    added,      ///< there was none of its key
    replaced,   ///< it took the place of `former`
    kept,       ///< `former` stays
    identical,  ///< `former` says the same
  };
  Kind kind = Kind::added;
  std::shared_ptr<const TuningEntry> offered;
  std::shared_ptr<const TuningEntry> former;  ///< what was there; nullptr when added
  std::string reason;                         ///< why one of them was preferred
  std::optional<Drift> drift;                 ///< of the former winner
};

/// Tuned choices in memory, one per key. Copies share the entries.
class EntrySet {
 public:
  enum class Conflict { better_evidence, offered_wins };

  /// Where the key is taken the better evidence stays (better_evidence()), with the histories of both.
  MergeOutcome add(TuningEntry offered, Conflict conflict = Conflict::better_evidence);
  /// nullptr when there is none.
  std::shared_ptr<const TuningEntry> find(const TuningKey& key) const;

  struct Nearest {
    std::shared_ptr<const TuningEntry> entry;
    double distance = 0;  ///< shape_distance()
  };
  /// The entry of the closest shapes among those that differ from `key` in nothing else. Of equally close ones the one
  /// whose shapes come first as text.
  std::optional<Nearest> find_nearest(const TuningKey& key) const;

  std::size_t remove_if(const std::function<bool(const TuningEntry&)>& unwanted);
  std::size_t size() const noexcept { return entries_.size(); }
  /// In the order of their keys' texts, so that files differ only where entries do.
  std::vector<std::shared_ptr<const TuningEntry>> sorted() const;

 private:
  struct Hash {
    std::size_t operator()(const ContentHash& hash) const noexcept { return hash.low; }
  };
  std::unordered_map<ContentHash, std::shared_ptr<const TuningEntry>, Hash> entries_;
};

}  // namespace kiln
