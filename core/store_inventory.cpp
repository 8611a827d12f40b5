#include "core/store_inventory.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <span>
#include <string_view>

#include "core/directory.hpp"
#include "core/disk_entry.hpp"
#include "core/usage_file.hpp"

namespace kiln {
namespace {

constexpr std::string_view kMarkerText =
    "Kiln disk store 1\n"
    "This file says that the folder is Kiln's cache: Kiln removes files of its own here.\n";

constexpr std::string_view kLockSuffix = ".lock";

/// The key of the entry that is locked, and the suffix.
bool is_lock_name(std::string_view name) {
  if (!name.ends_with(kLockSuffix)) return false;
  const std::string_view key = name.substr(0, name.size() - kLockSuffix.size());
  return key.size() > 2 && parse_disk_entry_name(key.substr(0, 2), std::string(key.substr(2)) + ".entry");
}

/// "<process>-<number>".
bool is_staging_name(std::string_view name) {
  const auto is_number = [](std::string_view text) {
    return !text.empty() && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
  };
  const std::size_t dash = name.find('-');
  return dash != std::string_view::npos && is_number(name.substr(0, dash)) && is_number(name.substr(dash + 1));
}

StoreItem::Kind kind_of(const std::string& folder, const std::string& name, const struct stat& status) {
  if (!S_ISREG(status.st_mode)) return StoreItem::Kind::stranger;
  if (folder.empty()) {
    if (name == UsageFile::kName) return StoreItem::Kind::usage;
    return name == kStoreMarker ? StoreItem::Kind::marker : StoreItem::Kind::stranger;
  }
  if (folder == kStoreLocks) return is_lock_name(name) ? StoreItem::Kind::lock : StoreItem::Kind::stranger;
  if (folder == kStoreStaging) return is_staging_name(name) ? StoreItem::Kind::staging : StoreItem::Kind::stranger;
  return parse_disk_entry_name(folder, name) ? StoreItem::Kind::entry : StoreItem::Kind::stranger;
}

void add_items(std::vector<StoreItem>& items, const FileDescriptor& directory, const std::string& folder) {
  for_each_name(directory, [&](const std::string& name) {
    struct stat status{};
    if (::fstatat(directory.get(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) return;
    if (folder.empty() && (name == kStoreLocks || name == kStoreStaging || is_shard_name(name)))
      if (const FileDescriptor inner = open_directory(directory, name)) return add_items(items, inner, name);
    items.push_back({kind_of(folder, name, status), folder, name, status});
  });
}

/// The first bytes of a file, at most `bytes.size()`. nullopt when it is there and cannot be read.
std::optional<std::span<std::byte>> read_start(const FileDescriptor& directory, const std::string& name,
                                               std::span<std::byte> bytes) {
  // O_NONBLOCK: a FIFO that took the file's place must not hang us.
  const FileDescriptor file(::openat(directory.get(), name.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!file) return errno == ENOENT ? std::optional(bytes.first(0)) : std::nullopt;
  ssize_t count = -1;
  do {
    count = ::pread(file.get(), bytes.data(), bytes.size(), 0);
  } while (count < 0 && errno == EINTR);
  return count < 0 ? std::nullopt : std::optional(bytes.first(static_cast<std::size_t>(count)));
}

bool is_start_of_marker(std::span<const std::byte> bytes) {
  const auto text = std::as_bytes(std::span(kMarkerText));
  return bytes.size() <= text.size() && std::ranges::equal(bytes, text.first(bytes.size()));
}

}  // namespace

std::vector<StoreItem> store_items(const FileDescriptor& root) {
  std::vector<StoreItem> items;
  add_items(items, root, "");
  return items;
}

ContentHash key_of(const StoreItem& entry) {
  return parse_disk_entry_name(entry.folder, entry.name).value();
}

bool is_written_by_kiln(const FileDescriptor& root, const StoreItem& item) {
  if (item.kind == StoreItem::Kind::stranger) return false;
  const FileDescriptor folder = item.folder.empty() ? FileDescriptor() : open_directory(root, item.folder);
  if (!item.folder.empty() && !folder) return errno == ENOENT;
  std::array<std::byte, 256> buffer;
  const auto start = read_start(item.folder.empty() ? root : folder, item.name, buffer);
  if (!start) return false;
  switch (item.kind) {
    case StoreItem::Kind::entry:
      return bears_disk_entry_header(*start, key_of(item));
    case StoreItem::Kind::staging:
      return bears_disk_entry_header(*start, std::nullopt);
    case StoreItem::Kind::lock:
      return start->empty();
    case StoreItem::Kind::usage:
      return UsageFile::bears_header(*start);
    case StoreItem::Kind::marker:
      return is_start_of_marker(*start);
    case StoreItem::Kind::stranger:
      break;
  }
  return false;
}

std::vector<std::string> find_strangers(const FileDescriptor& root) {
  std::vector<std::string> strangers;
  for (const StoreItem& item : store_items(root))
    if (!is_written_by_kiln(root, item)) strangers.push_back(item.path());
  std::ranges::sort(strangers);
  return strangers;
}

bool has_store_marker(const FileDescriptor& root) {
  std::array<std::byte, kMarkerText.size() + 1> buffer;
  const auto start = read_start(root, kStoreMarker, buffer);
  return start && start->size() == kMarkerText.size() && is_start_of_marker(*start);
}

bool write_store_marker(const FileDescriptor& root) {
  // In place rather than renamed into it: who looks meanwhile sees the start of it, which is Kiln's too.
  // Readable for whom the folder is: one that root fills may serve others.
  const FileDescriptor file(
      ::openat(root.get(), kStoreMarker, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0644));
  if (!file) return false;
  const ssize_t count = ::pwrite(file.get(), kMarkerText.data(), kMarkerText.size(), 0);
  if (count >= 0 && count != static_cast<ssize_t>(kMarkerText.size())) errno = ENOSPC;
  return count == static_cast<ssize_t>(kMarkerText.size());
}

}  // namespace kiln
