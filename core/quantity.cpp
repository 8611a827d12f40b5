#include "core/quantity.hpp"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <chrono>
#include <cmath>
#include <limits>

#include "core/errors.hpp"

namespace kiln {

std::string format_duration_us(double duration_us) {
  struct Unit {
    double in_us;
    const char* name;
  };
  static constexpr std::array<Unit, 4> kUnits{{{1e-3, "ns"}, {1.0, "us"}, {1e3, "ms"}, {1e6, "s"}}};
  const Unit* unit = &kUnits[0];
  // 0.9995: three significant digits must not round up to "1000 us".
  for (const Unit& candidate : kUnits)
    if (std::abs(duration_us) >= 0.9995 * candidate.in_us) unit = &candidate;
  const double value = duration_us / unit->in_us;
  const int decimals = std::abs(value) >= 99.95 ? 0 : std::abs(value) >= 9.995 ? 1 : 2;
  return fmt::format("{:.{}f} {}", value, decimals, unit->name);
}

std::string format_bytes(std::int64_t bytes) {
  static constexpr std::array<const char*, 5> kUnits{"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (std::abs(value) >= 1024 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.1f} {}", value, kUnits[unit]);
}

std::string format_count(std::int64_t count, std::string_view noun) {
  if (count == 1) return fmt::format("1 {}", noun);
  const bool ends_in_y = noun.size() > 1 && noun.back() == 'y' &&
                         std::string_view("aeiou").find(noun[noun.size() - 2]) == std::string_view::npos;
  return ends_in_y ? fmt::format("{} {}ies", count, noun.substr(0, noun.size() - 1))
                   : fmt::format("{} {}s", count, noun);
}

std::string format_age_s(std::int64_t age_s) {
  // A clock that was set back must not show a negative age.
  const std::int64_t seconds = age_s < 0 ? 0 : age_s;
  if (seconds < 120) return fmt::format("{} s", seconds);
  if (seconds < 120 * 60) return fmt::format("{} min", seconds / 60);
  if (seconds < 48 * 3600) return fmt::format("{} h", seconds / 3600);
  return fmt::format("{} days", seconds / 86400);
}

std::string format_age_since(std::int64_t unix_s) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return format_age_s(std::chrono::duration_cast<std::chrono::seconds>(now).count() - unix_s);
}

std::int64_t parse_bytes(std::string_view text, std::string_view what) {
  const auto fail = [&]() {
    throw_value_error(
        fmt::format("{}: '{}' is not a size; write bytes or a suffix, like 4096, 64K, 512M, 2G", what, text));
  };
  std::int64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || value < 0) fail();
  std::string_view suffix(rest, static_cast<std::size_t>(end - rest));
  int shift = 0;
  if (!suffix.empty()) {
    static constexpr std::string_view kLetters = "KMGT";
    const char letter =
        suffix.front() >= 'a' && suffix.front() <= 'z' ? static_cast<char>(suffix.front() - 'a' + 'A') : suffix.front();
    if (const std::size_t at = kLetters.find(letter); at != std::string_view::npos) {
      shift = 10 * (static_cast<int>(at) + 1);
      suffix.remove_prefix(1);
      if (suffix == "iB" || suffix == "B") suffix = {};
    } else if (suffix == "B") {
      suffix = {};
    }
    if (!suffix.empty()) fail();
  }
  if (value > (std::numeric_limits<std::int64_t>::max() >> shift)) fail();
  return value << shift;
}

}  // namespace kiln
