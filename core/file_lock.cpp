#include "core/file_lock.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <thread>

#include "core/interruption.hpp"

namespace kiln {
namespace {

/// As lock(), for as long as another process may build what the lock is of: whoever waits may be interrupted, which
/// flock() itself allows no one to be who is not the very thread that a signal goes to.
LockResult lock_interruptibly(const FileDescriptor& file) {
  std::chrono::milliseconds pause{1};
  while (true) {
    const LockResult result = try_lock(file);
    if (result != LockResult::busy) return result;
    check_interrupt();
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, kInterruptInterval);
  }
}

LockResult flock_result(int file, int operation) noexcept {
  while (::flock(file, operation) != 0) {
    if (errno == EINTR) continue;
    return errno == EWOULDBLOCK ? LockResult::busy : LockResult::unsupported;
  }
  return LockResult::locked;
}

/// Whether the open file is still the one its name leads to. A previous holder may have removed it while we waited, and
/// then whoever comes next locks another file of that name.
bool is_current(int file, int directory, const std::string& name) noexcept {
  struct stat opened{};
  struct stat named{};
  return ::fstat(file, &opened) == 0 && ::fstatat(directory, name.c_str(), &named, AT_SYMLINK_NOFOLLOW) == 0 &&
         opened.st_dev == named.st_dev && opened.st_ino == named.st_ino;
}

}  // namespace

FileDescriptor::~FileDescriptor() {
  if (value_ >= 0) ::close(value_);
}

LockResult lock(const FileDescriptor& file) noexcept {
  return flock_result(file.get(), LOCK_EX);
}
LockResult try_lock(const FileDescriptor& file) noexcept {
  return flock_result(file.get(), LOCK_EX | LOCK_NB);
}
void unlock(const FileDescriptor& file) noexcept {
  ::flock(file.get(), LOCK_UN);
}

std::optional<LockFile> LockFile::acquire(const FileDescriptor& directory, const std::string& name) {
  while (true) {
    FileDescriptor file(::openat(directory.get(), name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!file) {
      if (errno == EINTR) continue;
      return std::nullopt;
    }
    struct stat status{};
    if (::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode) || status.st_size != 0) {
      errno = EEXIST;
      return std::nullopt;
    }
    if (lock_interruptibly(file) != LockResult::locked) {
      ::unlinkat(directory.get(), name.c_str(), 0);
      errno = ENOLCK;
      return std::nullopt;
    }
    if (is_current(file.get(), directory.get(), name)) return LockFile(std::move(file), directory.get(), name);
  }
}

std::optional<LockFile> LockFile::try_acquire_existing(const FileDescriptor& directory, const std::string& name) {
  FileDescriptor file(::openat(directory.get(), name.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!file || try_lock(file) != LockResult::locked || !is_current(file.get(), directory.get(), name))
    return std::nullopt;
  return LockFile(std::move(file), directory.get(), name);
}

LockFile::~LockFile() {
  if (!file_) return;
  // Removed while held: only a holder removes, so nobody ever loses a lock that is theirs.
  ::unlinkat(directory_, name_.c_str(), 0);
  unlock(file_);
}

}  // namespace kiln
