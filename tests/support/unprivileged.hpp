#pragma once

#include <unistd.h>

#include <filesystem>

namespace kiln::test {

inline constexpr uid_t kNobody = 65534;

/// What root may do anyway cannot be tested as root: the child that calls this becomes nobody. False where that fails.
inline bool become_unprivileged() {
  return ::geteuid() != 0 || (::setgid(kNobody) == 0 && ::setuid(kNobody) == 0);
}
/// The same, who owns the test's directory by then.
inline bool become_unprivileged(const std::filesystem::path& directory) {
  return (::geteuid() != 0 || ::chown(directory.c_str(), kNobody, kNobody) == 0) && become_unprivileged();
}

}  // namespace kiln::test
