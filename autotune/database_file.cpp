#include "autotune/database_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "autotune/database_document.hpp"
#include "core/directory.hpp"
#include "core/disk_failure.hpp"

namespace kiln {
namespace {

std::string describe(const std::filesystem::path& path, const DiskFailure& failure) {
  std::string text = fmt::format("{}: {}", path.string(), failure.what);
  if (failure.code != 0) text += ": " + std::system_category().message(failure.code);
  if (failure.code == ENOSPC || failure.code == EDQUOT) text += "; free some space";
  return text;
}

FileVersion version_of(const struct stat& status) noexcept {
  return {status.st_dev, status.st_ino, status.st_size,
          std::int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec};
}

FileDescriptor open_folder(const std::filesystem::path& path) {
  FileDescriptor folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  struct stat status{};
  if (!folder || ::fstat(folder.get(), &status) != 0) throw DiskFailure{"cannot be opened", errno};
  if (!is_private(status))
    throw DiskFailure{"is refused: other users own or can write it, and could decide what runs here", 0};
  return folder;
}

std::string read_text(const FileDescriptor& file, off_t size_bytes) {
  std::string text(static_cast<std::size_t>(size_bytes), '\0');
  std::size_t read_bytes = 0;
  while (read_bytes < text.size()) {
    const ssize_t count = ::read(file.get(), text.data() + read_bytes, text.size() - read_bytes);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw DiskFailure{"cannot be read", errno};
    if (count == 0) break;  // cut short under our eyes; the text will tell
    read_bytes += static_cast<std::size_t>(count);
  }
  text.resize(read_bytes);
  return text;
}

DatabaseFolder::Content read_from(const FileDescriptor& folder, const std::string& name) {
  // O_NONBLOCK: a FIFO in the file's place must not hang us.
  const FileDescriptor file(::openat(folder.get(), name.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!file && errno == ENOENT) return {};
  struct stat status{};
  if (!file || ::fstat(file.get(), &status) != 0) throw DiskFailure{"cannot be opened", errno};
  if (!S_ISREG(status.st_mode)) throw DiskFailure{"is no regular file", 0};
  if (!is_private(status)) throw DiskFailure{"is refused: other users own or can write it", 0};
  constexpr auto kMost = static_cast<off_t>(kMaxTuningDocumentBytes);
  return {version_of(status), read_text(file, std::min(status.st_size, kMost)), "", status.st_size > kMost};
}

void write_all(const FileDescriptor& file, std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = ::write(file.get(), text.data(), text.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) throw DiskFailure{"cannot be written", count < 0 ? errno : EIO};
    text.remove_prefix(static_cast<std::size_t>(count));
  }
}

/// The caller holds the lock of `name`, so one staging name is enough, and what a killed writer left is overwritten.
FileVersion publish(const FileDescriptor& folder, const std::string& name, const DatabaseFolder::Change& change) {
  const std::string staging = name + ".staging";
  ::unlinkat(folder.get(), staging.c_str(), 0);
  const FileDescriptor file(
      ::openat(folder.get(), staging.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file) throw DiskFailure{"cannot be written (its staging file)", errno};
  struct stat status{};
  try {
    write_all(file, change.text);
    if (::fsync(file.get()) != 0 || ::fstat(file.get(), &status) != 0)
      throw DiskFailure{"cannot be written to the disk", errno};
    if (change.keep_former) {
      // A second name rather than a move: at no moment is the file itself missing.
      const std::string former = name + ".damaged";
      ::unlinkat(folder.get(), former.c_str(), 0);
      if (::linkat(folder.get(), name.c_str(), folder.get(), former.c_str(), 0) != 0)
        throw DiskFailure{"is damaged, and cannot be kept as " + former + " while it is replaced", errno};
    }
    if (::renameat(folder.get(), staging.c_str(), folder.get(), name.c_str()) != 0)
      throw DiskFailure{"cannot be replaced", errno};
  } catch (const DiskFailure&) {
    ::unlinkat(folder.get(), staging.c_str(), 0);
    throw;
  }
  // Not checked: the file is there, and were the rename lost in a crash the former one would be.
  ::fsync(folder.get());
  return version_of(status);
}

}  // namespace

DatabaseFolder::DatabaseFolder(std::filesystem::path path) : path_(std::move(path)) {
  std::error_code error;
  if (auto absolute = std::filesystem::absolute(path_, error); !error && !path_.empty()) path_ = std::move(absolute);
}

DatabaseFolder::Content DatabaseFolder::read(const std::string& name) const {
  // Before it is opened: a version that is too old costs a second look, one that is too new would hide a change.
  const FileVersion before = version(name);
  if (before == FileVersion{}) return {};
  Content content;
  try {
    content = read_from(open_folder(path_), name);
  } catch (const DiskFailure& failure) {
    content.problem = describe(path_ / name, failure);
  }
  content.version = before;
  return content;
}

FileVersion DatabaseFolder::version(const std::string& name) const noexcept {
  struct stat status{};
  if (path_.empty()) return {};
  if (::lstat((path_ / name).c_str(), &status) == 0) return version_of(status);
  // A file that cannot be looked at is not one that is not there, nor as it was before.
  return errno == ENOENT ? FileVersion{} : FileVersion{0, static_cast<ino_t>(errno), -1, 0};
}

std::string DatabaseFolder::problem() const {
  if (version("") == FileVersion{}) return "";
  try {
    open_folder(path_);
    return "";
  } catch (const DiskFailure& failure) {
    return describe(path_, failure);
  }
}

std::vector<std::string> DatabaseFolder::names(std::string_view suffix) const {
  std::vector<std::string> found;
  const FileDescriptor folder(::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder) return found;
  for_each_name(folder, [&](const std::string& name) {
    if (name.ends_with(suffix)) found.push_back(name);
  });
  std::ranges::sort(found);
  return found;
}

DatabaseFolder::Updated DatabaseFolder::update(const std::string& name,
                                               const std::function<std::optional<Change>(const Content& now)>& change) {
  if (path_.empty()) return {"there is no cache directory, since HOME is not set; set KILN_CACHE_DIR", {}};
  const int make_code = make_directories(path_);
  try {
    if (make_code != 0) throw DiskFailure{"cannot make its folder", make_code};
    const FileDescriptor folder = open_folder(path_);
    const std::optional<LockFile> lock = LockFile::acquire(folder, name + ".lock");
    if (!lock) throw DiskFailure{"cannot be locked", errno};
    const Content now = read_from(folder, name);
    const std::optional<Change> next = change(now);
    return {"", next ? publish(folder, name, *next) : now.version};
  } catch (const DiskFailure& failure) {
    return {describe(path_ / name, failure), {}};
  }
}

}  // namespace kiln
