#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/file_lock.hpp"

namespace kiln {

/// What a file was when it was looked at. Every publication is another inode, and an edit in place another time.
struct FileVersion {
  dev_t device = 0;
  ino_t inode = 0;
  off_t size_bytes = -1;  ///< -1: there is no such file, or it cannot be looked at
  std::int64_t modified_unix_ns = 0;
  friend bool operator==(const FileVersion&, const FileVersion&) = default;
};

/// Text files of one folder that processes change together. A reader sees a file before or after a change, never in
/// between, whatever becomes of the writer.
class DatabaseFolder {
 public:
  explicit DatabaseFolder(std::filesystem::path path);
  const std::filesystem::path& path() const noexcept { return path_; }

  /// Why the folder, which is there, cannot be used; empty otherwise.
  std::string problem() const;

  struct Content {
    FileVersion version;
    std::string text;     ///< empty when there is no file
    std::string problem;  ///< why a file that is there cannot be read: no file, another user's
    bool is_cut = false;  ///< the text is the beginning of what no tuning database is as large as
  };
  Content read(const std::string& name) const;
  /// Without opening it; cheap.
  FileVersion version(const std::string& name) const noexcept;
  /// Names ending in `suffix`, sorted.
  std::vector<std::string> names(std::string_view suffix) const;

  struct Change {
    std::string text;
    bool keep_former = false;  ///< leave what was there beside it, as "NAME.damaged"
  };
  struct Updated {
    std::string problem;  ///< one line that says what the disk refused; the file is then as it was
    FileVersion version;  ///< of the file that was published
  };
  /// Locks `name` across threads and processes, reads it, and replaces it by what `change` makes of it: a staging file,
  /// fsync, rename, fsync of the folder. nullopt leaves it as it is. Makes the folder, private, when it is missing.
  Updated update(const std::string& name, const std::function<std::optional<Change>(const Content& now)>& change);

 private:
  std::filesystem::path path_;
};

}  // namespace kiln
