#include "core/usage_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string>

#include "core/disk_failure.hpp"

namespace kiln {
namespace {

/// "KILNSIZE" as a little-endian number.
constexpr std::uint64_t kUsageMagic = 0x455a49534e4c494bULL;

struct Content {
  std::uint64_t magic = kUsageMagic;
  std::int64_t bytes = 0;
  std::int64_t complement = 0;
};

}  // namespace

bool UsageFile::bears_header(std::span<const std::byte> start) noexcept {
  Content content;
  if (std::memcmp(start.data(), &content.magic, std::min(start.size(), sizeof content.magic)) == 0) return true;
  std::array<std::int64_t, 2> former{};
  if (start.size() < sizeof former) return false;
  std::memcpy(former.data(), start.data(), sizeof former);
  if (former[1] == ~former[0]) return true;
  if (start.size() < sizeof content) return false;
  std::memcpy(&content, start.data(), sizeof content);
  return content.complement == ~content.bytes;
}

UsageFile::UsageFile(const FileDescriptor& root)
    : file_(::openat(root.get(), kName, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600)) {
  struct stat status{};
  std::array<std::byte, sizeof(Content)> start;
  if (!file_ || ::fstat(file_.get(), &status) != 0) throw DiskFailure{"cannot open its file 'usage'", errno};
  const ssize_t count = S_ISREG(status.st_mode) ? ::pread(file_.get(), start.data(), start.size(), 0) : -1;
  if (count < 0 || !bears_header(std::span(start).first(static_cast<std::size_t>(count))))
    throw DiskFailure{"what lies there as 'usage' is not Kiln's; move it away", 0};
  // Without locks (LockResult::unsupported) concurrent writers may lose each other's counts; the bound is then
  // approximate.
  lock(file_);
}

UsageFile::~UsageFile() {
  unlock(file_);
}

std::optional<std::int64_t> UsageFile::read() const noexcept {
  Content content;
  if (::pread(file_.get(), &content, sizeof content, 0) != static_cast<ssize_t>(sizeof content) ||
      content.magic != kUsageMagic || content.complement != ~content.bytes || content.bytes < 0)
    return std::nullopt;
  return content.bytes;
}

void UsageFile::write(std::int64_t bytes) {
  const Content content{kUsageMagic, bytes, ~bytes};
  if (::pwrite(file_.get(), &content, sizeof content, 0) != static_cast<ssize_t>(sizeof content))
    throw DiskFailure{"cannot write its file 'usage'", errno};
}

}  // namespace kiln
