#pragma once

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>

#include <filesystem>
#include <functional>

#include "tests/support/child_process.hpp"

namespace kiln::test {

/// Runs `body`, which returns 0, in a child that sees a file system of its own mounted at `path`. Skips the test where
/// this user may not mount.
inline void expect_on_tmpfs(const std::filesystem::path& path, const char* options, const std::function<int()>& body) {
  constexpr int kNotPermitted = 77;
  std::filesystem::create_directories(path);
  const int code =
      ChildProcess([&] {
        if (::unshare(CLONE_NEWNS) != 0 || ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
            ::mount("none", path.c_str(), "tmpfs", 0, options) != 0)
          return kNotPermitted;
        return body();
      }).wait();
  if (code == kNotPermitted) GTEST_SKIP() << "mounting a small file system is not permitted here";
  EXPECT_EQ(code, 0);
}

}  // namespace kiln::test
