#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/content_hash.hpp"
#include "core/file_lock.hpp"

namespace kiln {

/// The file format of one entry of a DiskStore, and the names of its files.
inline constexpr std::size_t kDiskEntryHeaderBytes = 56;
/// Far above any artifact; keeps a nonsense size from becoming an allocation.
inline constexpr std::int64_t kMaxDiskEntryPayloadBytes = std::int64_t{1} << 30;

struct DiskEntryName {
  std::string shard;  ///< directory: 2 hex digits
  std::string file;   ///< 30 hex digits + ".entry"
};
DiskEntryName disk_entry_name(const ContentHash& key);
/// The key that a shard directory and a file name spell; nullopt for any other file.
std::optional<ContentHash> parse_disk_entry_name(std::string_view shard, std::string_view file);
/// Whether `name` could be a shard directory's.
bool is_shard_name(std::string_view name) noexcept;

std::array<std::byte, kDiskEntryHeaderBytes> disk_entry_header(const ContentHash& key,
                                                               std::span<const std::byte> payload);

/// Whether a file that begins so is an entry, however damaged: its magic number or its key has come through. A start
/// that is too short for either must be the start of the magic number. Without a key (a staging file) that alone
/// counts.
bool bears_disk_entry_header(std::span<const std::byte> start, const std::optional<ContentHash>& key) noexcept;

/// The payload of the entry file `name` of an open directory. nullopt unless it is a regular file that no other user
/// can write, of exactly the right length, whose checksum and key agree. `mark_used` stamps it with the present time;
/// failure to do so is ignored.
std::optional<std::vector<std::byte>> read_disk_entry(const FileDescriptor& directory, const std::string& name,
                                                      const ContentHash& key, bool mark_used);

/// Sets access and modification time to now, to the nanosecond. The kernel's own stamps are as coarse as its tick, and
/// it may move an access time behind our back (or never, under noatime), so least recently used goes by the
/// modification time that only this sets.
void stamp_used(const FileDescriptor& file) noexcept;

}  // namespace kiln
