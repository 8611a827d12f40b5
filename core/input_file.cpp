#include "core/input_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <system_error>

#include "core/errors.hpp"
#include "core/file_lock.hpp"
#include "core/quantity.hpp"

namespace kiln {

std::string read_input_file(const std::string& path, std::size_t most_bytes) {
  const auto fail = [&](const std::string& reason) {
    throw SystemError(fmt::format("'{}' cannot be read: {}", path, reason));
  };
  const auto fail_with = [&](int error) { fail(std::error_code(error, std::generic_category()).message()); };
  // Looked at before it is opened, which some devices act upon.
  struct stat status{};
  if (::stat(path.c_str(), &status) != 0) fail_with(errno);
  if (S_ISDIR(status.st_mode)) fail("it is a folder");
  if (!S_ISREG(status.st_mode) && !S_ISFIFO(status.st_mode)) fail("it is neither a regular file nor a pipe");
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) fail_with(errno);

  // What a file claims to hold is no measure: those of /proc claim nothing, and one that is being written grows.
  constexpr std::size_t kPieceBytes = std::size_t{1} << 16;
  std::string text;
  for (std::size_t done = 0;;) {
    text.resize(std::min(done + kPieceBytes, most_bytes + 1));
    const ssize_t count = ::read(file.get(), text.data() + done, text.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail_with(errno);
    done += static_cast<std::size_t>(count);
    if (done > most_bytes)
      fail(fmt::format("it has more than {}, the most that is read of such a file",
                       format_bytes(static_cast<std::int64_t>(most_bytes))));
    if (count == 0) {
      text.resize(done);
      return text;
    }
  }
}

}  // namespace kiln
