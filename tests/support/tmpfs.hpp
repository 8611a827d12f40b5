#pragma once

#include <sched.h>
#include <sys/mount.h>

#include <filesystem>
#include <functional>

#include "tests/support/child_process.hpp"

namespace kiln::test {

/// What run_on_tmpfs returns where this user may not mount; no body returns it.
inline constexpr int kNotPermitted = 77;

/// Runs `body` in a child that sees a file system of its own mounted at `path`.
inline int run_on_tmpfs(const std::filesystem::path& path, const char* options, const std::function<int()>& body) {
  std::filesystem::create_directories(path);
  return ChildProcess([&] {
           if (::unshare(CLONE_NEWNS) != 0 || ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
               ::mount("none", path.c_str(), "tmpfs", 0, options) != 0)
             return kNotPermitted;
           return body();
         })
      .wait();
}

}  // namespace kiln::test
