#include "core/directory.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <vector>

namespace kiln {

bool is_private(const struct stat& status) noexcept {
  return (status.st_uid == ::geteuid() || status.st_uid == 0) && (status.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

int make_directories(const std::filesystem::path& path) noexcept try {
  // Not std::filesystem::create_directories: it would leave the mode to the umask.
  int code = 0;
  std::filesystem::path prefix;
  for (const auto& part : path) {
    prefix /= part;
    // Only the last failure counts: on a read-only file system mkdir may refuse a parent that exists with EROFS rather
    // than EEXIST.
    code = ::mkdir(prefix.c_str(), 0700) == 0 || errno == EEXIST ? 0 : errno;
  }
  return code;
} catch (const std::bad_alloc&) {
  return ENOMEM;
}

FileDescriptor open_directory(const FileDescriptor& parent, const std::string& name) noexcept {
  FileDescriptor directory(::openat(parent.get(), name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat status{};
  if (directory && (::fstat(directory.get(), &status) != 0 || !is_private(status))) {
    errno = EPERM;
    return {};
  }
  return directory;
}

FileDescriptor make_directory(const FileDescriptor& parent, const std::string& name) noexcept {
  FileDescriptor directory = open_directory(parent, name);
  if (directory || errno != ENOENT) return directory;
  if (::mkdirat(parent.get(), name.c_str(), 0700) != 0 && errno != EEXIST) return {};
  return open_directory(parent, name);
}

void for_each_name(const FileDescriptor& directory, const std::function<void(const std::string& name)>& visit) {
  // A descriptor of its own: reading moves the position that duplicates share, and closedir() closes what it was given.
  const int copy = ::openat(directory.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (copy < 0) return;
  const std::unique_ptr<DIR, int (*)(DIR*)> stream(::fdopendir(copy), ::closedir);
  if (!stream) {
    ::close(copy);
    return;
  }
  // Collected first: a visitor that removes what it sees would disturb the stream on some file systems.
  std::vector<std::string> names;
  while (const dirent* entry = ::readdir(stream.get()))
    if (std::string name = entry->d_name; name != "." && name != "..") names.push_back(std::move(name));
  for (const std::string& name : names) visit(name);
}

}  // namespace kiln
