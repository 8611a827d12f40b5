#include "core/output_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <system_error>
#include <utility>

#include "core/errors.hpp"

namespace kiln {
namespace {

constexpr int kMostLinks = 40;  ///< as Linux follows

std::string reason(int error) {
  return std::error_code(error, std::generic_category()).message();
}

/// Through symbolic links, so that the rename replaces the file a link names and not the link.
std::filesystem::path resolved(std::filesystem::path path) {
  std::error_code error;
  // weakly_canonical takes a link to a file that is not there yet for that file.
  for (int links = 0; links < kMostLinks && !std::filesystem::exists(path, error); ++links) {
    const std::filesystem::path to = std::filesystem::read_symlink(path, error);
    if (error) break;
    path = path.parent_path() / to;
  }
  std::filesystem::path target = std::filesystem::weakly_canonical(path, error);
  return error ? path : target;
}

/// /dev/stdout and named pipes cannot be replaced by a rename.
bool is_special(const std::filesystem::path& target) {
  std::error_code ignored;
  return std::filesystem::exists(target, ignored) && !std::filesystem::is_regular_file(target, ignored);
}

std::string path_of(int file) {
  return fmt::format("/proc/self/fd/{}", file);
}

/// A file of `folder` without a name, which goes with the process however that ends. -1 where the file system has no
/// such files, and where it could not be named later.
int open_nameless(const std::filesystem::path& folder) {
  const int file = ::open(folder.empty() ? "." : folder.c_str(), O_WRONLY | O_TMPFILE | O_CLOEXEC, 0666);
  if (file < 0 || ::access(path_of(file).c_str(), F_OK) == 0) return file;
  ::close(file);
  return -1;
}

}  // namespace

void check_output_path(const std::string& path) {
  const std::filesystem::path target = resolved(path);
  std::error_code error;
  if (std::filesystem::is_directory(target, error))
    throw SystemError(fmt::format("cannot write '{}': it is a folder", path));
  const std::filesystem::path folder = target.has_parent_path() ? target.parent_path() : std::filesystem::path(".");
  if (!std::filesystem::is_directory(folder, error))
    throw SystemError(fmt::format("cannot write '{}': there is no folder '{}'", path, folder.string()));
  const std::filesystem::path& written = is_special(target) ? target : folder;
  if (::access(written.c_str(), W_OK) != 0)
    throw SystemError(
        fmt::format("cannot write '{}': '{}' is not writable: {}", path, written.string(), reason(errno)));
}

OutputFile::OutputFile(std::string path) : path_(std::move(path)), target_(resolved(path_)) {
  check_output_path(path_);
  if (is_special(target_)) {
    file_ = ::open(target_.c_str(), O_WRONLY | O_CLOEXEC);
  } else {
    static std::atomic<std::uint64_t> made{0};
    staging_ = target_.parent_path() /
               fmt::format(".{}.{}.{}.partial", target_.filename().string(), ::getpid(), made.fetch_add(1));
    file_ = open_nameless(target_.parent_path());
    if (file_ < 0) {
      file_ = ::open(staging_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0666);
      is_named_ = file_ >= 0;
    }
  }
  if (file_ < 0) fail(errno);
}

OutputFile::~OutputFile() {
  if (file_ >= 0) ::close(file_);
  if (is_named_) ::unlink(staging_.c_str());
}

void OutputFile::write(const void* bytes, std::size_t size_bytes) {
  std::size_t done = 0;
  while (done < size_bytes) {
    const ssize_t count = ::write(file_, static_cast<const char*>(bytes) + done, size_bytes - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail(errno);
    done += static_cast<std::size_t>(count);
  }
}

void OutputFile::commit() {
  if (!staging_.empty() && !is_named_) {
    ::unlink(staging_.c_str());  // of a process that was killed between the two steps and had this one's number
    if (::linkat(AT_FDCWD, path_of(file_).c_str(), AT_FDCWD, staging_.c_str(), AT_SYMLINK_FOLLOW) != 0) fail(errno);
    is_named_ = true;
  }
  // Network file systems tell of a full disk as late as here.
  if (::close(std::exchange(file_, -1)) != 0) fail(errno);
  if (staging_.empty()) return;
  if (::rename(staging_.c_str(), target_.c_str()) != 0) fail(errno);
  staging_.clear();
  is_named_ = false;
}

void OutputFile::fail(int error) const {
  throw SystemError(fmt::format("cannot write '{}': {}", path_, reason(error)));
}

}  // namespace kiln
