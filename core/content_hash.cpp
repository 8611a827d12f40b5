#include "core/content_hash.hpp"

#include <fmt/format.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace kiln {
namespace {

// Tags keep a number apart from a text of the same bytes.
constexpr char kTextTag = 's';
constexpr char kNumberTag = 'i';

void append_number(std::string& buffer, std::uint64_t value) {
  for (int shift = 0; shift < 64; shift += 8) buffer.push_back(static_cast<char>((value >> shift) & 0xffu));
}

}  // namespace

std::string ContentHash::hex() const {
  return fmt::format("{:016x}{:016x}", high, low);
}

ContentHash content_hash(std::span<const std::byte> bytes) noexcept {
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return {hash.high64, hash.low64};
}

ContentHasher& ContentHasher::field(std::string_view text) {
  buffer_.push_back(kTextTag);
  append_number(buffer_, text.size());
  buffer_.append(text);
  return *this;
}

ContentHasher& ContentHasher::field(std::int64_t value) {
  buffer_.push_back(kNumberTag);
  append_number(buffer_, static_cast<std::uint64_t>(value));
  return *this;
}

ContentHash ContentHasher::digest() const noexcept {
  return content_hash(std::as_bytes(std::span(buffer_.data(), buffer_.size())));
}

}  // namespace kiln
