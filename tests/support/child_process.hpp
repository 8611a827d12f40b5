#pragma once

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <exception>
#include <functional>
#include <system_error>

/// A check in the body of a ChildProcess, which it ends with 1 when it fails.
#define REQUIRE_IN_CHILD(condition)                                                                   \
  do {                                                                                                \
    if (!(condition)) {                                                                               \
      std::fprintf(stderr, "%s:%d: not so in a child process: %s\n", __FILE__, __LINE__, #condition); \
      return 1;                                                                                       \
    }                                                                                                 \
  } while (false)

namespace kiln::test {

/// A fork of the test that runs `body` and leaves with its result, without GoogleTest's or the library's exit handlers.
/// Fork before starting threads.
class ChildProcess {
 public:
  explicit ChildProcess(const std::function<int()>& body) : id_(::fork()) {
    if (id_ < 0) throw std::system_error(errno, std::generic_category(), "fork");
    if (id_ > 0) return;
    int code = 125;
    try {
      code = body();
    } catch (const std::exception& error) {
      std::fprintf(stderr, "in a child process: %s\n", error.what());
    }
    ::_exit(code);
  }
  ChildProcess(ChildProcess&& other) noexcept : id_(other.id_) { other.id_ = 0; }
  ChildProcess& operator=(ChildProcess&&) = delete;
  ~ChildProcess() {
    if (id_ > 0) kill();
  }

  /// The exit code of `body`; minus the signal that ended it.
  int wait() {
    int status = 0;
    while (::waitpid(id_, &status, 0) < 0 && errno == EINTR) continue;
    id_ = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }
  int kill() {
    ::kill(id_, SIGKILL);
    return wait();
  }

 private:
  pid_t id_;
};

}  // namespace kiln::test
