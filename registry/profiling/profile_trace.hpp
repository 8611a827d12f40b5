#pragma once

#include <string>

namespace kiln {

class ProfileSession;

/// Writes a stopped session as trace events (docs/profiling.md). A file is replaced as a whole or left as it was.
/// SystemError when the file system refuses.
void write_profile_trace(const ProfileSession& session, const std::string& path);

}  // namespace kiln
