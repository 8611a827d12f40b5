#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "core/file_lock.hpp"

namespace kiln {

/// A store's size as all its writers together count it, in a file, locked while the object lives: a process that writes
/// one entry must not walk the whole store for it. The count may err upwards only (it is raised before an entry
/// appears, and entries that others delete stay counted), and a walk mends it when it reaches the capacity.
class UsageFile {
 public:
  static constexpr const char* kName = "usage";

  /// Of the store in the open directory `root`. DiskFailure when the disk refuses, or something that is not Kiln's lies
  /// in its place.
  explicit UsageFile(const FileDescriptor& root);
  UsageFile(const UsageFile&) = delete;
  UsageFile& operator=(const UsageFile&) = delete;
  ~UsageFile();

  /// nullopt when never written or damaged.
  std::optional<std::int64_t> read() const noexcept;
  void write(std::int64_t bytes);

  /// Whether a file that begins so is a usage file, however damaged: its magic number or its count and the count's
  /// complement have come through. Those written before there was a magic number begin with the count.
  static bool bears_header(std::span<const std::byte> start) noexcept;

 private:
  FileDescriptor file_;
};

}  // namespace kiln
