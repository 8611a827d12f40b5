#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/content_hash.hpp"

namespace kiln {

/// A directory of checksummed, immutable entries named by a ContentHash, shared by many processes.
///
/// Layout: `<root>/<2 hex>/<30 hex>.entry`, `<root>/locks/`, `<root>/staging/`. An entry is a fixed header (magic, format version,
/// payload size, checksum of everything else) and the payload. Publishing: staging file, fsync, rename, fsync of the directory.
/// A missing, short, long or damaged entry is a miss. The directory is created 0700; one that is owned by, or writable for, other users is refused
/// (DiskStoreState::refused) since whoever writes it decides what code runs here.
class DiskStore {
 public:
  enum class State { usable, read_only, refused, unavailable };

  /// Never throws for what the disk does: problems show in state() and problem(). `capacity_bytes` bounds the store (LRU by access time).
  DiskStore(std::filesystem::path root, std::int64_t capacity_bytes);

  State state() const;
  std::string problem() const;  ///< one line for a warning; empty while all is well
  const std::filesystem::path& root() const noexcept { return root_; }

  /// The payload, or nullopt. Marks the entry as used.
  std::optional<std::vector<std::byte>> read(const ContentHash& key);
  /// False, with problem() set, when the disk refuses; the store stays consistent.
  bool write(const ContentHash& key, std::span<const std::byte> payload);

  /// Look; lock the key across threads and processes; look again; build; write. `build` runs at most once per key among all processes
  /// that share the directory, unless the disk cannot be used at all. Exceptions of `build` pass through and release the lock.
  std::vector<std::byte> read_or_build(const ContentHash& key, const std::function<std::vector<std::byte>()>& build);

  struct Entry {
    ContentHash key;
    std::int64_t size_bytes;
    std::int64_t last_used_unix_s;
    bool intact;  ///< as verified by this call
  };
  /// All entries, newest first, each verified when `verify`.
  std::vector<Entry> list(bool verify) const;
  struct Pruned {
    std::int64_t entries = 0;
    std::int64_t bytes = 0;
  };
  /// Removes least recently used entries until at most `capacity_bytes` remain, and staging files of dead writers.
  Pruned prune(std::int64_t capacity_bytes);
  Pruned remove_damaged();
  Pruned clear();

 private:
  std::filesystem::path root_;
  std::int64_t capacity_bytes_;
  mutable std::mutex mutex_;
  State state_ = State::usable;
  std::string problem_;
};

/// KILN_CACHE_DIR, else $XDG_CACHE_HOME/kiln, else ~/.cache/kiln.
std::filesystem::path default_cache_root();

}  // namespace kiln
