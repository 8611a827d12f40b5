#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/content_hash.hpp"
#include "core/file_lock.hpp"

namespace kiln {

/// A directory of checksummed, immutable entries named by a ContentHash, shared by many processes.
///
/// Layout: `<root>/<2 hex>/<30 hex>.entry`, `<root>/locks/`, `<root>/staging/`, `<root>/usage`, `<root>/kiln-store`. An
/// entry is a fixed header (magic, format version, payload size, key, checksum of everything else) and the payload.
/// Publishing: staging file, fsync, rename, fsync of the directory. A missing, short, long or damaged entry is a miss.
/// The directory is created 0700; one that is owned by another user (root excepted), or writable for other users, is
/// refused (State::refused) since whoever writes it decides what code runs here. Refused too is one that is a symbolic
/// link, and one that lacks the marker `kiln-store` and holds anything that Kiln would not have made. In a directory of
/// its own a store removes and replaces only what Kiln wrote (core/store_inventory.hpp); strangers() are left alone.
/// Safe from many threads. Removing the directory under a running process is survived: it is made anew.
class DiskStore {
 public:
  enum class State { usable, read_only, refused, unavailable };

  /// Never throws for what the disk does: problems show in state() and problem(). A relative root counts from the
  /// current directory of now. `capacity_bytes` bounds the entries' total size: a write that would exceed it first
  /// removes the least recently used ones, down to nine tenths of it.
  DiskStore(std::filesystem::path root, std::int64_t capacity_bytes);

  State state() const;
  /// One line for a warning; empty while all is well. A write that succeeds clears what an earlier one left (a disk
  /// that was full).
  std::string problem() const;
  const std::filesystem::path& root() const noexcept { return root_; }

  /// The payload, or nullopt. Marks the entry as used.
  std::optional<std::vector<std::byte>> read(const ContentHash& key);
  /// False, with problem() set, when the disk refuses; the store stays consistent.
  bool write(const ContentHash& key, std::span<const std::byte> payload);

  /// Look; lock the key across threads and processes; look again; build; write. `build` runs at most once per key among
  /// all processes that share the directory, unless the disk cannot be used at all. Exceptions of `build` pass through
  /// and release the lock.
  std::vector<std::byte> read_or_build(const ContentHash& key, const std::function<std::vector<std::byte>()>& build);

  struct Entry {
    ContentHash key;
    std::int64_t size_bytes;  ///< of the file, header included
    std::int64_t last_used_unix_s;
    bool intact;  ///< as verified by this call; true without `verify`
  };
  /// All files that are named as entries, newest first, each verified when `verify`.
  std::vector<Entry> list(bool verify) const;
  /// What lies in the directory and is not Kiln's, which nothing here removes or replaces: paths below root().
  std::vector<std::string> strangers() const;
  /// Entries removed, and their bytes.
  struct Pruned {
    std::int64_t entries = 0;
    std::int64_t bytes = 0;
  };
  /// Removes least recently used entries until at most `capacity_bytes` remain, and staging files of dead writers.
  Pruned prune(std::int64_t capacity_bytes);
  /// Those that bear Kiln's header.
  Pruned remove_damaged();
  Pruned clear();

 private:
  struct Listed;
  using Select = std::function<bool(const FileDescriptor& root, const Listed& entry, std::int64_t remaining_bytes)>;
  using Directory = std::shared_ptr<const FileDescriptor>;

  void open_root();
  Directory directory();
  /// As it was last seen: what only looks makes nothing anew.
  Directory last_directory() const;
  Directory writable_directory();
  void note_failure(const std::string& what, int code);
  void publish(const FileDescriptor& root, const ContentHash& key, std::span<const std::byte> payload);
  void make_room(const FileDescriptor& root, std::int64_t entry_bytes) const;
  Pruned remove_selected(const Select& select);

  std::filesystem::path root_;
  std::int64_t capacity_bytes_;
  mutable std::mutex mutex_;
  State state_ = State::usable;
  std::string problem_;
  /// Everything is opened relative to this, so that a root swapped after it was checked is never followed.
  Directory directory_;
};

/// KILN_CACHE_DIR, else $XDG_CACHE_HOME/kiln (where that is absolute, as its specification asks), else ~/.cache/kiln;
/// empty, which a DiskStore takes for unavailable, when HOME is unset too.
std::filesystem::path default_cache_root();

}  // namespace kiln
