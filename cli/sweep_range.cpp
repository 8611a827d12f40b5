#include "cli/sweep_range.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "core/errors.hpp"
#include "core/quantity.hpp"

namespace kiln::cli {
namespace {

constexpr std::int64_t kHighestValue = std::int64_t{1} << 40;

bool is_size(const std::string& text) {
  try {
    parse_bytes(text, "--sweep");
    return true;
  } catch (const UsageError&) {
    return false;
  }
}

}  // namespace

bool is_sweep_variable(const std::string& text) {
  const auto is_capital = [](char letter) { return letter >= 'A' && letter <= 'Z'; };
  return !text.empty() && is_capital(text.front()) && std::all_of(text.begin(), text.end(), [&](char letter) {
    return is_capital(letter) || (letter >= '0' && letter <= '9') || letter == '_';
  });
}

SweepRange parse_sweep_range(const std::string& text) {
  const auto fail = [&](const std::string& why) {
    throw_value_error(
        fmt::format("--sweep '{}': {}; write the sizes of a letter in --shape, like N=1:64K or N=1,100,3000, or of the "
                    "call in bytes, "
                    "like 1K:256M",
                    text, why));
  };
  SweepRange range;
  std::string ends = text;
  if (const std::size_t equals = text.find('='); equals != std::string::npos) {
    range.variable = text.substr(0, equals);
    ends = text.substr(equals + 1);
    if (!is_sweep_variable(range.variable)) fail(fmt::format("'{}' is not a name of capital letters", range.variable));
  }
  const auto number = [&](const std::string& end) {
    try {
      return parse_bytes(end, "--sweep");
    } catch (const UsageError&) {
      // With one digit, whatever is a number fits.
      const std::size_t digits = std::min(end.find_first_not_of("0123456789"), end.size());
      fail(digits > 0 && is_size("1" + end.substr(digits)) ? fmt::format("'{}' is beyond 64 bits", end)
                                                           : fmt::format("'{}' is not a number", end));
    }
    return std::int64_t{0};
  };
  const std::size_t colon = ends.find(':');
  if (colon == std::string::npos && !range.variable.empty() && !ends.empty()) {
    for (std::size_t begin = 0; begin <= ends.size();) {
      const std::size_t end = std::min(ends.find(',', begin), ends.size());
      range.listed.push_back(number(ends.substr(begin, end - begin)));
      begin = end + 1;
    }
    std::ranges::sort(range.listed);
    range.listed.erase(std::ranges::unique(range.listed).begin(), range.listed.end());
    if (range.listed.front() < 1) fail("sizes start at 1");
    return range;
  }
  if (colon == std::string::npos) fail("a range is LOW:HIGH");
  range.low = number(ends.substr(0, colon));
  range.high = number(ends.substr(colon + 1));
  if (range.low < 1) fail("sizes start at 1");
  if (range.high < range.low) fail(fmt::format("{} is below {}", range.high, range.low));
  return range;
}

std::vector<std::int64_t> sweep_values(const SweepRange& range, const std::function<double(std::int64_t)>& bytes_of) {
  if (!range.listed.empty()) return range.listed;
  std::vector<std::int64_t> values;
  if (!range.variable.empty()) {
    for (std::int64_t value = range.low; value <= range.high; value *= 2) {
      values.push_back(value);
      if (value > std::numeric_limits<std::int64_t>::max() / 2) break;
    }
    return values;
  }
  for (std::int64_t value = 1; value <= kHighestValue; value *= 2) {
    double bytes = 0;
    try {
      bytes = bytes_of(value);
    } catch (const UsageError&) {
      continue;  // two rows may be too few for an op, and 2^40 too many
    }
    if (bytes > static_cast<double>(range.high)) break;
    if (bytes >= static_cast<double>(range.low)) values.push_back(value);
  }
  if (values.empty())
    throw_value_error(fmt::format("--sweep from {} to {}: no power of two makes a call of so many bytes",
                                  format_bytes(range.low), format_bytes(range.high)));
  return values;
}

}  // namespace kiln::cli
