#include "core/terminal_text.hpp"

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>

namespace kiln {
namespace {

/// The character that `text` begins with, and how many bytes it takes; 0 of them where they are no UTF-8.
struct Character {
  std::uint32_t code = 0;
  std::size_t size_bytes = 0;
};

Character first_character(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  const std::size_t size_bytes = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || text.size() < size_bytes) return {};
  std::uint32_t code = lead & (0xffU >> (size_bytes + 1));
  for (std::size_t i = 1; i < size_bytes; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return {};
    code = code << 6 | (byte(i) & 0x3fU);
  }
  // Longer than it need be, one half of a pair of UTF-16, or beyond the last character.
  constexpr std::uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  if (code < kLeast[size_bytes] || (code >= 0xd800 && code < 0xe000) || code > 0x10ffff) return {};
  return {code, size_bytes};
}

std::string safe(std::string_view text, bool keeps_lines) {
  std::string made;
  made.reserve(text.size());
  while (!text.empty()) {
    const auto [code, size_bytes] = first_character(text);
    if (size_bytes == 0)
      made += fmt::format("\\x{:02x}", static_cast<unsigned char>(text.front()));
    else if (code == '\n' || code == '\t')
      made += keeps_lines ? text.substr(0, 1) : code == '\n' ? "\\n" : "\\t";
    else if (code < 0x20 || code == 0x7f)
      made += fmt::format("\\x{:02x}", code);
    else if (code >= 0x80 && code < 0xa0)
      made += fmt::format("\\u{:04x}", code);
    else
      made += text.substr(0, size_bytes);
    text.remove_prefix(size_bytes == 0 ? 1 : size_bytes);
  }
  return made;
}

}  // namespace

std::string terminal_text(std::string_view text) {
  return safe(text, /*keeps_lines=*/true);
}

std::string terminal_line(std::string_view text) {
  return safe(text, /*keeps_lines=*/false);
}

}  // namespace kiln
