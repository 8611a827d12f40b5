#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

namespace kiln {

/// Throws what an OutputFile of `path` would throw before it writes: SystemError when the folder of `path` is not there
/// or not writable.
void check_output_path(const std::string& path);

/// A file that takes its place as a whole at `commit`; before that, when writing fails and when the process is killed,
/// whatever was there stays as it was, and nothing else is left where the file system knows files without a name. Of
/// several at a time for one path the last to commit stays. A symbolic link is followed, also to a file that
/// is not there yet; /dev/stdout and named pipes are written as they are.
class OutputFile {
 public:
  /// SystemError as check_output_path.
  explicit OutputFile(std::string path);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  /// SystemError when the file system refuses.
  void write(const void* bytes, std::size_t size_bytes);
  /// Once, after the last write. SystemError when the file system refuses.
  void commit();

 private:
  [[noreturn]] void fail(int error) const;

  std::string path_;  ///< as given, for messages
  std::filesystem::path target_;
  std::filesystem::path staging_;  ///< the name before `commit`; empty: written in place, or done
  bool is_named_ = false;          ///< `staging_` is there to be removed
  int file_ = -1;
};

}  // namespace kiln
