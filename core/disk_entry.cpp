#include "core/disk_entry.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/directory.hpp"

namespace kiln {
namespace {

constexpr std::string_view kSuffix = ".entry";
constexpr std::size_t kShardDigits = 2;
constexpr std::size_t kFileDigits = 30;
/// "KILNDISK" as a little-endian number: a machine of the other byte order sees no entry of its own here.
constexpr std::uint64_t kEntryMagic = 0x4b5349444e4c494bULL;
constexpr std::uint32_t kEntryVersion = 1;

struct Header {
  std::uint64_t magic = kEntryMagic;
  std::uint32_t format_version = kEntryVersion;
  std::uint32_t header_bytes = kDiskEntryHeaderBytes;
  std::uint64_t payload_bytes = 0;
  std::uint64_t key_high = 0, key_low = 0;
  std::uint64_t checksum_high = 0, checksum_low = 0;
};
static_assert(sizeof(Header) == kDiskEntryHeaderBytes, "the header is written as it lies in memory");

Header make_header(const ContentHash& key, std::span<const std::byte> payload) noexcept {
  Header header;
  header.payload_bytes = payload.size();
  header.key_high = key.high;
  header.key_low = key.low;
  // The payload's hash stands in for the payload while the header is hashed, so that the two need not lie in one
  // buffer.
  const ContentHash payload_hash = content_hash(payload);
  header.checksum_high = payload_hash.high;
  header.checksum_low = payload_hash.low;
  const ContentHash checksum = content_hash(std::as_bytes(std::span(&header, 1)));
  header.checksum_high = checksum.high;
  header.checksum_low = checksum.low;
  return header;
}

bool is_hex(std::string_view text) noexcept {
  return std::ranges::all_of(text, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

std::uint64_t parse_hex(std::string_view digits) noexcept {
  std::uint64_t value = 0;
  for (const char c : digits) value = value << 4U | static_cast<std::uint64_t>(c <= '9' ? c - '0' : c - 'a' + 10);
  return value;
}

bool read_exactly(const FileDescriptor& file, void* destination, std::size_t size_bytes) noexcept {
  auto* cursor = static_cast<std::byte*>(destination);
  while (size_bytes > 0) {
    const ssize_t count = ::read(file.get(), cursor, size_bytes);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    cursor += count;
    size_bytes -= static_cast<std::size_t>(count);
  }
  return true;
}

}  // namespace

DiskEntryName disk_entry_name(const ContentHash& key) {
  const std::string hex = key.hex();
  return {hex.substr(0, kShardDigits), hex.substr(kShardDigits).append(kSuffix)};
}

bool is_shard_name(std::string_view name) noexcept {
  return name.size() == kShardDigits && is_hex(name);
}

std::optional<ContentHash> parse_disk_entry_name(std::string_view shard, std::string_view file) {
  if (!is_shard_name(shard) || file.size() != kFileDigits + kSuffix.size() || !file.ends_with(kSuffix) ||
      !is_hex(file.substr(0, kFileDigits)))
    return std::nullopt;
  const std::string hex = std::string(shard).append(file.substr(0, kFileDigits));
  return ContentHash{parse_hex(std::string_view(hex).substr(0, 16)), parse_hex(std::string_view(hex).substr(16))};
}

std::array<std::byte, kDiskEntryHeaderBytes> disk_entry_header(const ContentHash& key,
                                                               std::span<const std::byte> payload) {
  const Header header = make_header(key, payload);
  std::array<std::byte, kDiskEntryHeaderBytes> bytes;
  std::memcpy(bytes.data(), &header, bytes.size());
  return bytes;
}

bool bears_disk_entry_header(std::span<const std::byte> start, const std::optional<ContentHash>& key) noexcept {
  Header header;
  const std::size_t magic_bytes = std::min(start.size(), sizeof header.magic);
  if (std::memcmp(start.data(), &header.magic, magic_bytes) == 0) return true;
  if (!key || start.size() < sizeof header) return false;
  std::memcpy(&header, start.data(), sizeof header);
  return header.key_high == key->high && header.key_low == key->low;
}

std::optional<std::vector<std::byte>> read_disk_entry(const FileDescriptor& directory, const std::string& name,
                                                      const ContentHash& key, bool mark_used) {
  // O_NONBLOCK: a FIFO in the entry's place must not hang us.
  const FileDescriptor file(::openat(directory.get(), name.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat status{};
  if (!file || ::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode) || !is_private(status))
    return std::nullopt;

  Header header;
  const std::int64_t payload_bytes = status.st_size - static_cast<std::int64_t>(sizeof header);
  if (payload_bytes < 0 || payload_bytes > kMaxDiskEntryPayloadBytes || !read_exactly(file, &header, sizeof header))
    return std::nullopt;
  if (header.magic != kEntryMagic || header.format_version != kEntryVersion ||
      header.payload_bytes != static_cast<std::uint64_t>(payload_bytes))
    return std::nullopt;

  std::vector<std::byte> payload(static_cast<std::size_t>(payload_bytes));
  if (!read_exactly(file, payload.data(), payload.size())) return std::nullopt;
  const Header expected = make_header(key, payload);
  if (std::memcmp(&header, &expected, sizeof header) != 0) return std::nullopt;
  if (mark_used) stamp_used(file);
  return payload;
}

void stamp_used(const FileDescriptor& file) noexcept {
  struct timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  const struct timespec times[2] = {now, now};
  ::futimens(file.get(), times);
}

}  // namespace kiln
