#pragma once

#include <sys/stat.h>

#include <filesystem>
#include <functional>
#include <string>

#include "core/file_lock.hpp"

namespace kiln {

/// Whether only this user (and root, who could do anything anyway) can write what `status` describes.
bool is_private(const struct stat& status) noexcept;

/// Makes a directory and its missing parents, 0700. 0, or the errno of the failure.
int make_directories(const std::filesystem::path& path) noexcept;

/// Opens the directory `name` of `parent`, without following a symlink. Empty with errno set when it is not there, or
/// (EPERM) not private.
FileDescriptor open_directory(const FileDescriptor& parent, const std::string& name) noexcept;
/// As above, made first when missing. ENOTDIR when something else, a symlink too, lies in its place.
FileDescriptor make_directory(const FileDescriptor& parent, const std::string& name) noexcept;

/// Calls `visit` with the name of everything in an open directory, "." and ".." aside, in no order. Nothing when it
/// cannot be read.
void for_each_name(const FileDescriptor& directory, const std::function<void(const std::string& name)>& visit);

}  // namespace kiln
