#include "core/subprocess.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <system_error>

#include "core/errors.hpp"
#include "core/file_lock.hpp"

extern char** environ;

namespace kiln {
namespace {

[[noreturn]] void fail(const std::string& program, int error) {
  throw SystemError(
      fmt::format("cannot run '{}': {}", program, std::error_code(error, std::generic_category()).message()));
}

struct Pipe {
  FileDescriptor read_end, write_end;
  explicit Pipe(const std::string& program) {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) fail(program, errno);
    read_end = FileDescriptor(ends[0]);
    write_end = FileDescriptor(ends[1]);
  }
  void close_write_end() { FileDescriptor closed = std::move(write_end); }
};

/// Reads both pipes as they fill: a child that waits on a full one would never end.
void drain(std::array<std::pair<int, std::string*>, 2> streams) {
  std::array<char, 65536> buffer{};
  while (streams[0].first >= 0 || streams[1].first >= 0) {
    std::array<pollfd, 2> polled{pollfd{streams[0].first, POLLIN, 0}, pollfd{streams[1].first, POLLIN, 0}};
    if (::poll(polled.data(), polled.size(), -1) < 0 && errno != EINTR) return;
    for (std::size_t i = 0; i < polled.size(); ++i) {
      if (polled[i].revents == 0) continue;
      const ssize_t count = ::read(streams[i].first, buffer.data(), buffer.size());
      if (count > 0) streams[i].second->append(buffer.data(), static_cast<std::size_t>(count));
      if (count == 0 || (count < 0 && errno != EINTR)) streams[i].first = -1;
    }
  }
}

}  // namespace

std::optional<SubprocessResult> run_subprocess(const std::vector<std::string>& arguments) {
  const std::string& program = arguments.at(0);
  Pipe output(program), error(program);
  std::vector<char*> argv;
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);

  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions, output.write_end.get(), STDOUT_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, error.write_end.get(), STDERR_FILENO);
  pid_t child = 0;
  const int code = ::posix_spawnp(&child, program.c_str(), &actions, nullptr, argv.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  if (code == ENOENT) return std::nullopt;
  if (code != 0) fail(program, code);

  output.close_write_end();
  error.close_write_end();
  SubprocessResult result;
  drain({std::pair{output.read_end.get(), &result.standard_output},
         std::pair{error.read_end.get(), &result.standard_error}});
  int status = 0;
  while (::waitpid(child, &status, 0) < 0) {
    if (errno == ECHILD) {
      result.exit_status = result.standard_error.empty() ? 0 : 1;
      return result;
    }
    if (errno != EINTR) fail(program, errno);
  }
  result.exit_status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return result;
}

}  // namespace kiln
