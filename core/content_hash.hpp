#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace kiln {

/// A 128-bit XXH3 digest. Not cryptographic: it guards against accident, not against an attacker.
struct ContentHash {
  std::uint64_t high = 0;
  std::uint64_t low = 0;
  auto operator<=>(const ContentHash&) const = default;
  std::string hex() const;  ///< 32 lower-case digits
};

ContentHash content_hash(std::span<const std::byte> bytes) noexcept;

/// Hashes a sequence of fields; each is length-prefixed, so ("ab","c") and ("a","bc") differ.
class ContentHasher {
 public:
  ContentHasher& field(std::string_view text);
  ContentHasher& field(std::int64_t value);
  ContentHash digest() const noexcept;

 private:
  std::string buffer_;
};

}  // namespace kiln
