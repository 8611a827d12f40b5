#include "core/disk_store.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <optional>
#include <system_error>
#include <utility>

#include "core/directory.hpp"
#include "core/disk_entry.hpp"
#include "core/disk_failure.hpp"
#include "core/environment.hpp"
#include "core/store_inventory.hpp"
#include "core/usage_file.hpp"

namespace kiln {
namespace {

constexpr const char* kMemoryOnly = "; what is built now is kept in memory only";

FileDescriptor make_directory_or_fail(const FileDescriptor& parent, const std::string& name) {
  FileDescriptor directory = make_directory(parent, name);
  if (!directory && errno == ENOTDIR)
    throw DiskFailure{"what lies there as '" + name + "' is no directory, so not Kiln's; move it away", 0};
  if (!directory) throw DiskFailure{"cannot open its subdirectory '" + name + "'", errno};
  return directory;
}

/// A file being written under a name of its own. It is locked meanwhile, which is how prune() tells it from one whose
/// writer died: a process id would mean nothing to another container or host that shares the directory, nor after it
/// was used again.
class StagingFile {
 public:
  explicit StagingFile(const FileDescriptor& root) : directory_(make_directory_or_fail(root, kStoreStaging)) {
    static std::atomic<std::uint64_t> counter{0};
    while (true) {
      name_ = std::to_string(::getpid()) + "-" + std::to_string(counter.fetch_add(1, std::memory_order_relaxed));
      file_ = FileDescriptor(
          ::openat(directory_.get(), name_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
      if (!file_) {
        if (errno == EEXIST || errno == EINTR) continue;
        throw DiskFailure{"cannot create a staging file", errno};
      }
      // Between creation and lock a pruner may have taken it for abandoned.
      struct stat status{};
      if (try_lock(file_) != LockResult::busy && ::fstat(file_.get(), &status) == 0 && status.st_nlink > 0) return;
    }
  }
  StagingFile(const StagingFile&) = delete;
  StagingFile& operator=(const StagingFile&) = delete;
  ~StagingFile() {
    if (!published_) ::unlinkat(directory_.get(), name_.c_str(), 0);
    unlock(file_);
  }

  void write(std::span<const std::byte> header, std::span<const std::byte> payload) {
    std::array<iovec, 2> parts{iovec{const_cast<std::byte*>(header.data()), header.size()},
                               iovec{const_cast<std::byte*>(payload.data()), payload.size()}};
    while (parts[0].iov_len + parts[1].iov_len > 0) {
      const ssize_t count = ::writev(file_.get(), parts.data(), static_cast<int>(parts.size()));
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0)
        throw DiskFailure{"cannot write an entry of " + std::to_string(header.size() + payload.size()) + " bytes",
                          count < 0 ? errno : EIO};
      auto written = static_cast<std::size_t>(count);
      for (iovec& part : parts) {
        const std::size_t taken = std::min(written, part.iov_len);
        part.iov_base = static_cast<std::byte*>(part.iov_base) + taken;
        part.iov_len -= taken;
        written -= taken;
      }
    }
    stamp_used(file_);
    if (::fsync(file_.get()) != 0) throw DiskFailure{"cannot write an entry to the disk", errno};
  }

  void rename_to(const FileDescriptor& directory, const std::string& name) {
    if (::renameat(directory_.get(), name_.c_str(), directory.get(), name.c_str()) != 0)
      throw DiskFailure{"cannot publish an entry", errno};
    published_ = true;
    // Not checked: the entry is there, and were it lost in a crash the checksum or its absence would tell.
    ::fsync(directory.get());
  }

 private:
  FileDescriptor directory_;
  FileDescriptor file_;
  std::string name_;
  bool published_ = false;
};

/// Staging and lock files of Kiln's that nobody holds: their owners died.
void remove_abandoned(const FileDescriptor& root) {
  for (const StoreItem& item : store_items(root)) {
    if (item.kind != StoreItem::Kind::staging && item.kind != StoreItem::Kind::lock) continue;
    // Taking the lock and letting it go removes the file.
    if (const FileDescriptor folder = open_directory(root, item.folder); folder && is_written_by_kiln(root, item))
      LockFile::try_acquire_existing(folder, item.name);
  }
}

/// Nothing, or what Kiln itself may replace, lies in an entry's place.
void expect_place_of_kiln(const FileDescriptor& root, const DiskEntryName& name, const FileDescriptor& shard) {
  StoreItem item{StoreItem::Kind::entry, name.shard, name.file, {}};
  if (::fstatat(shard.get(), name.file.c_str(), &item.status, AT_SYMLINK_NOFOLLOW) != 0) return;
  if (!S_ISREG(item.status.st_mode) || !is_written_by_kiln(root, item))
    throw DiskFailure{"what lies in an entry's place, '" + item.path() + "', is not Kiln's; move it away", 0};
}

}  // namespace

struct DiskStore::Listed {
  StoreItem item;
  ContentHash key;
  std::int64_t size_bytes;
  std::int64_t last_used_unix_ns;

  /// Every file in the store that is named as an entry, least recently used first.
  static std::vector<Listed> all(const FileDescriptor& root) {
    std::vector<Listed> entries;
    for (StoreItem& item : store_items(root)) {
      if (item.kind != StoreItem::Kind::entry) continue;
      const struct stat& status = item.status;
      entries.push_back(
          {item, key_of(item), status.st_size, status.st_mtim.tv_sec * 1'000'000'000 + status.st_mtim.tv_nsec});
    }
    std::ranges::sort(entries, {}, [](const Listed& entry) { return std::pair(entry.last_used_unix_ns, entry.key); });
    return entries;
  }

  static std::int64_t total_bytes(const std::vector<Listed>& entries) {
    std::int64_t total = 0;
    for (const Listed& entry : entries) total += entry.size_bytes;
    return total;
  }

  bool is_intact(const FileDescriptor& root) const {
    const FileDescriptor shard = open_directory(root, item.folder);
    return shard && read_disk_entry(shard, item.name, key, /*mark_used=*/false).has_value();
  }

  /// False too for a file that is not Kiln's.
  bool remove(const FileDescriptor& root) const {
    const FileDescriptor shard = open_directory(root, item.folder);
    return shard && is_written_by_kiln(root, item) && ::unlinkat(shard.get(), item.name.c_str(), 0) == 0;
  }
};

DiskStore::DiskStore(std::filesystem::path root, std::int64_t capacity_bytes)
    : root_(std::move(root)), capacity_bytes_(std::max<std::int64_t>(capacity_bytes, 0)) {
  std::error_code error;
  if (auto absolute = std::filesystem::absolute(root_, error); !error && !root_.empty()) root_ = std::move(absolute);
  // Of "store/" the system would follow a link at the end.
  if (!root_.has_filename()) root_ = root_.parent_path();
  const std::lock_guard guard(mutex_);
  open_root();
}

DiskStore::State DiskStore::state() const {
  const std::lock_guard guard(mutex_);
  return state_;
}

std::string DiskStore::problem() const {
  const std::lock_guard guard(mutex_);
  return problem_;
}

void DiskStore::open_root() {
  directory_.reset();
  const auto set = [this](State state, const std::string& problem) {
    state_ = state;
    problem_ = problem;
  };
  const std::string directory_text = "cache directory " + root_.string();
  if (root_.empty())
    return set(State::unavailable,
               std::string("there is no cache directory, since HOME is not set; set KILN_CACHE_DIR") + kMemoryOnly);

  const int make_code = make_directories(root_);
  FileDescriptor root(::open(root_.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat status{};
  if (std::error_code ignored; !root && std::filesystem::is_symlink(root_, ignored))
    return set(State::refused, directory_text +
                                   " is refused: it is a symbolic link, and Kiln removes files only where it made the "
                                   "folder; replace the link by a directory, or link the folder above it" +
                                   kMemoryOnly);
  if (!root || ::fstat(root.get(), &status) != 0) {
    const int code = errno == ENOENT && make_code != 0 ? make_code : errno;
    return set(State::unavailable, directory_text + " cannot be used: " + std::system_category().message(code) +
                                       "; set KILN_CACHE_DIR to a directory that can be written" + kMemoryOnly);
  }
  if (!is_private(status)) {
    const bool foreign = status.st_uid != ::geteuid() && status.st_uid != 0;
    return set(
        State::refused,
        directory_text +
            (foreign
                 ? " is refused: it is owned by another user (uid " + std::to_string(status.st_uid) +
                       "), who could decide what code runs here; set KILN_CACHE_DIR to a directory of your own"
                 : " is refused: other users can write it, and so decide what code runs here; run chmod go-w on it, or "
                   "set KILN_CACHE_DIR to another directory") +
            kMemoryOnly);
  }
  if (::faccessat(root.get(), ".", W_OK | X_OK, AT_EACCESS) != 0) {
    // Nothing is removed there, so it may be anybody's: entries prove themselves.
    set(State::read_only,
        directory_text + " is read-only (" + std::system_category().message(errno) + ")" + kMemoryOnly);
  } else if (const std::vector<std::string> strangers =
                 has_store_marker(root) ? std::vector<std::string>() : find_strangers(root);
             !strangers.empty()) {
    return set(State::refused,
               directory_text + " is refused: it lacks Kiln's marker (the file '" + kStoreMarker + "') and holds '" +
                   strangers.front() + "', which is not Kiln's" +
                   (strangers.size() > 1 ? ", and " + std::to_string(strangers.size() - 1) + " more" : "") +
                   "; set KILN_CACHE_DIR to another directory, or move them away" + kMemoryOnly);
  } else {
    // A folder from before there were markers is adopted. A disk that refuses the marker will refuse the entries too,
    // and those say so.
    write_store_marker(root);
    set(State::usable, "");
  }
  directory_ = std::make_shared<const FileDescriptor>(std::move(root));
}

DiskStore::Directory DiskStore::directory() {
  const std::lock_guard guard(mutex_);
  if (struct stat status{}; directory_ && (::fstat(directory_->get(), &status) != 0 || status.st_nlink == 0))
    open_root();
  return directory_;
}

DiskStore::Directory DiskStore::last_directory() const {
  const std::lock_guard guard(mutex_);
  return directory_;
}

DiskStore::Directory DiskStore::writable_directory() {
  Directory root = directory();
  return state() == State::usable ? root : nullptr;
}

void DiskStore::note_failure(const std::string& what, int code) {
  std::string problem = "cache directory " + root_.string() + ": " + what;
  if (code != 0) problem += ": " + std::system_category().message(code);
  if (code == EPERM) problem += " (is something in it owned by, or writable for, other users?)";
  if (code == ENOSPC || code == EDQUOT) problem += "; free some space, or set KILN_CACHE_DIR to another disk";
  problem += kMemoryOnly;
  const std::lock_guard guard(mutex_);
  problem_ = std::move(problem);
  if (state_ == State::usable && (code == EROFS || code == EACCES)) state_ = State::read_only;
}

std::optional<std::vector<std::byte>> DiskStore::read(const ContentHash& key) {
  const Directory root = directory();
  if (!root) return std::nullopt;
  const DiskEntryName name = disk_entry_name(key);
  const FileDescriptor shard = open_directory(*root, name.shard);
  if (!shard) return std::nullopt;
  return read_disk_entry(shard, name.file, key, /*mark_used=*/true);
}

bool DiskStore::write(const ContentHash& key, std::span<const std::byte> payload) {
  const Directory root = writable_directory();
  if (!root) return false;
  try {
    publish(*root, key, payload);
  } catch (const DiskFailure& failure) {
    note_failure(failure.what, failure.code);
    return false;
  }
  const std::lock_guard guard(mutex_);
  if (state_ == State::usable) problem_.clear();
  return true;
}

void DiskStore::publish(const FileDescriptor& root, const ContentHash& key, std::span<const std::byte> payload) {
  const auto payload_bytes = static_cast<std::int64_t>(payload.size());
  const std::int64_t entry_bytes = payload_bytes + static_cast<std::int64_t>(kDiskEntryHeaderBytes);
  if (payload_bytes > kMaxDiskEntryPayloadBytes || entry_bytes > capacity_bytes_)
    throw DiskFailure{"an entry of " + std::to_string(entry_bytes) + " bytes is larger than the cache may become (" +
                          std::to_string(std::min(capacity_bytes_, kMaxDiskEntryPayloadBytes)) + " bytes)",
                      0};
  const DiskEntryName name = disk_entry_name(key);
  const FileDescriptor shard = make_directory_or_fail(root, name.shard);
  expect_place_of_kiln(root, name, shard);
  StagingFile staging(root);
  staging.write(disk_entry_header(key, payload), payload);
  make_room(root, entry_bytes);
  staging.rename_to(shard, name.file);
}

void DiskStore::make_room(const FileDescriptor& root, std::int64_t entry_bytes) const {
  UsageFile usage(root);
  std::optional<std::int64_t> used_bytes = usage.read();
  if (!used_bytes || *used_bytes > capacity_bytes_ - entry_bytes) {
    const std::vector<Listed> entries = Listed::all(root);
    used_bytes = Listed::total_bytes(entries);
    if (*used_bytes > capacity_bytes_ - entry_bytes) {
      // A tenth is left free so that a full store is walked once in many writes.
      const std::int64_t wanted_bytes = std::max<std::int64_t>(capacity_bytes_ - capacity_bytes_ / 10 - entry_bytes, 0);
      for (const Listed& entry : entries) {
        if (*used_bytes <= wanted_bytes) break;
        if (entry.remove(root)) *used_bytes -= entry.size_bytes;
      }
      remove_abandoned(root);
    }
  }
  usage.write(*used_bytes + entry_bytes);
}

std::vector<std::byte> DiskStore::read_or_build(const ContentHash& key,
                                                const std::function<std::vector<std::byte>()>& build) {
  if (auto payload = read(key)) return *std::move(payload);

  const Directory root = writable_directory();
  const FileDescriptor locks = root ? make_directory(*root, kStoreLocks) : FileDescriptor();
  const std::optional<LockFile> lock_of_key = locks ? LockFile::acquire(locks, key.hex() + ".lock") : std::nullopt;
  if (root && !lock_of_key)
    note_failure("cannot lock an entry, so that several processes may build the same one", errno);
  if (lock_of_key)
    if (auto payload = read(key)) return *std::move(payload);

  std::vector<std::byte> payload = build();
  write(key, payload);
  return payload;
}

std::vector<DiskStore::Entry> DiskStore::list(bool verify) const {
  const Directory root = last_directory();
  std::vector<Entry> entries;
  if (!root) return entries;
  for (const Listed& listed : Listed::all(*root))
    entries.push_back(
        {listed.key, listed.size_bytes, listed.last_used_unix_ns / 1'000'000'000, !verify || listed.is_intact(*root)});
  std::ranges::reverse(entries);
  return entries;
}

std::vector<std::string> DiskStore::strangers() const {
  const Directory root = last_directory();
  return root ? find_strangers(*root) : std::vector<std::string>();
}

DiskStore::Pruned DiskStore::remove_selected(const Select& select) {
  Pruned pruned;
  const Directory root = writable_directory();
  if (!root) return pruned;
  try {
    UsageFile usage(*root);
    const std::vector<Listed> entries = Listed::all(*root);
    std::int64_t remaining_bytes = Listed::total_bytes(entries);
    for (const Listed& entry : entries) {
      if (!select(*root, entry, remaining_bytes) || !entry.remove(*root)) continue;
      ++pruned.entries;
      pruned.bytes += entry.size_bytes;
      remaining_bytes -= entry.size_bytes;
    }
    remove_abandoned(*root);
    usage.write(remaining_bytes);
  } catch (const DiskFailure& failure) {
    note_failure(failure.what, failure.code);
  }
  return pruned;
}

DiskStore::Pruned DiskStore::prune(std::int64_t capacity_bytes) {
  return remove_selected([capacity_bytes](const FileDescriptor&, const Listed&, std::int64_t remaining_bytes) {
    return remaining_bytes > capacity_bytes;
  });
}

DiskStore::Pruned DiskStore::remove_damaged() {
  return remove_selected(
      [](const FileDescriptor& root, const Listed& entry, std::int64_t) { return !entry.is_intact(root); });
}

DiskStore::Pruned DiskStore::clear() {
  return remove_selected([](const FileDescriptor&, const Listed&, std::int64_t) { return true; });
}

std::filesystem::path default_cache_root() {
  if (const auto root = environment("KILN_CACHE_DIR")) return *root;
  if (const auto cache_home = environment("XDG_CACHE_HOME");
      cache_home && std::filesystem::path(*cache_home).is_absolute())
    return std::filesystem::path(*cache_home) / "kiln";
  if (const auto home = environment("HOME")) return std::filesystem::path(*home) / ".cache" / "kiln";
  return {};
}

}  // namespace kiln
