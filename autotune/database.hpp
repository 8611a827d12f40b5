#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "autotune/database_document.hpp"
#include "autotune/database_file.hpp"
#include "autotune/entry_set.hpp"

namespace kiln {

/// Whether an entry would be used here and now.
struct EntryVerdict {
  enum class Kind {
    usable,
    elsewhere,  ///< sound, but of hardware or an op that is not here
    stale,      ///< of sources or a config space that are no more
  };
  Kind kind = Kind::usable;
  std::string reason;  ///< one line, unless usable
};
/// autotune/ knows no ops: who does says what today's sources, spaces and devices make of an entry.
using EntryCheck = std::function<EntryVerdict(const TuningEntry&)>;

/// Tuned choices on disk, shared by many processes: one JSON file per device model in one folder. Safe from many
/// threads. A disk that refuses costs what is new its permanence and nothing else: entries are kept in memory, written
/// with the next change that succeeds, and problem() says why. A damaged entry costs no other, and a damaged file is
/// kept beside the one that replaces it. A file that would be larger than what is read back gives up what its oldest
/// entries rest on, and then those (database_limit.hpp).
class TuningDatabase {
 public:
  using Clock = std::chrono::steady_clock;

  /// Whether a file has changed is looked up at most once per `recheck`.
  explicit TuningDatabase(const std::filesystem::path& folder,
                          Clock::duration recheck = std::chrono::milliseconds(500));
  /// default_cache_root() / "tuning".
  static TuningDatabase& process();
  const std::filesystem::path& folder() const noexcept { return folder_.path(); }

  /// The entry of exactly this key, or nullptr. Below a microsecond once its device's file is in memory.
  std::shared_ptr<const TuningEntry> find(const TuningKey& key);
  /// As EntrySet::find_nearest. Looks at every entry of the device.
  std::optional<EntrySet::Nearest> find_nearest(const TuningKey& key);

  /// Adds entries to their devices' files: locked, read anew, merged, replaced. The outcomes are in the order of
  /// `offered`. InternalError for an entry that could not be read back (a choice without a time, an empty name).
  std::vector<MergeOutcome> record(std::vector<TuningEntry> offered,
                                   EntrySet::Conflict conflict = EntrySet::Conflict::better_evidence);

  /// One line for a warning; empty while all is well.
  std::string problem() const;
  /// Why something recorded is in memory only; empty when all of it is on disk.
  std::string write_problem() const;

  struct DeviceFile {
    std::filesystem::path path;
    std::vector<std::shared_ptr<const TuningEntry>> entries;  ///< sorted by key
    std::vector<DamagedEntry> damaged;
    std::string problem;  ///< of the file as a whole
  };
  /// Everything on disk as it is now, with what this process could not write.
  std::vector<DeviceFile> list() const;

  struct Removed {
    std::size_t entries = 0;
    std::size_t damaged = 0;
    std::vector<std::string> problems;  ///< files that could not be changed
  };
  /// Removes the entries that `unwanted` names from all files, and damaged ones.
  Removed remove_if(const std::function<bool(const TuningEntry&)>& unwanted);

  /// database_file_name().
  static std::string file_name(const std::string& device_model);

 private:
  /// What is known of one device's file.
  struct Slot {
    FileVersion version;  ///< of the file that `entries` and `damaged` are of
    Clock::time_point next_check;
    std::shared_ptr<const EntrySet> entries = std::make_shared<const EntrySet>();
    std::vector<DamagedEntry> damaged;
    bool is_whole = false;  ///< the file was read, and as a whole was in order
    EntrySet unsaved;       ///< the part of `entries` that no file has
    std::string read_problem;
    std::string write_problem;
  };
  Slot& fresh_slot(const std::string& device_model);
  void load(Slot& slot, const std::string& name) const;
  std::vector<MergeOutcome> record_on(const std::string& device_model, const std::vector<TuningEntry>& offered,
                                      EntrySet::Conflict conflict);

  DatabaseFolder folder_;
  Clock::duration recheck_;
  /// Held over changes of files, which may wait for other processes. Lookups do not.
  std::mutex write_mutex_;
  mutable std::mutex mutex_;                     ///< of slots_
  std::unordered_map<std::string, Slot> slots_;  ///< by device model; `unsaved` changes under write_mutex_ only
};

}  // namespace kiln
