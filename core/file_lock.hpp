#pragma once

#include <optional>
#include <string>
#include <utility>

namespace kiln {

/// An owned file descriptor; -1 when empty.
class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int value) noexcept : value_(value) {}
  FileDescriptor(FileDescriptor&& other) noexcept : value_(std::exchange(other.value_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(value_, other.value_);
    return *this;
  }
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  ~FileDescriptor();

  int get() const noexcept { return value_; }
  explicit operator bool() const noexcept { return value_ >= 0; }

 private:
  int value_ = -1;
};

enum class LockResult {
  locked,
  busy,         ///< someone else holds it (try_lock only)
  unsupported,  ///< the file system has no locks, or no more of them
};

/// An exclusive flock() on an open file. It belongs to the open file description, so two opens of one file exclude each
/// other in one process as well as across processes, and the kernel releases it when its holder dies. POSIX record
/// locks do neither for threads, and are lost when any descriptor of the file is closed.
LockResult lock(const FileDescriptor& file) noexcept;
LockResult try_lock(const FileDescriptor& file) noexcept;
/// Explicit because a child forked meanwhile shares the description: closing our copy alone would leave the lock held.
void unlock(const FileDescriptor& file) noexcept;

/// A lock that exists as a file while someone holds or awaits it, and leaves nothing behind.
class LockFile {
 public:
  /// Creates `name` in the open directory and waits until it is ours. nullopt with errno set when the file system
  /// refuses, and (EEXIST) when what is there is no empty file: it is not a lock, and would be removed with it.
  /// `directory` must outlive the lock. The wait may be interrupted (core/interruption.hpp).
  static std::optional<LockFile> acquire(const FileDescriptor& directory, const std::string& name);
  /// As above without waiting: nullopt also when someone holds it, or when there is no such file. Clears up after dead
  /// holders.
  static std::optional<LockFile> try_acquire_existing(const FileDescriptor& directory, const std::string& name);

  LockFile(LockFile&&) noexcept = default;
  LockFile& operator=(LockFile&&) = delete;
  ~LockFile();

 private:
  LockFile(FileDescriptor file, int directory, std::string name)
      : file_(std::move(file)), directory_(directory), name_(std::move(name)) {}
  FileDescriptor file_;
  int directory_;
  std::string name_;
};

}  // namespace kiln
