#include "autotune/significant_digits.hpp"

#include <fmt/format.h>

#include <charconv>
#include <string>

namespace kiln {

double with_significant_digits(double value, int digits) {
  const std::string text = fmt::format("{:.{}g}", value, digits);
  double rounded = value;
  std::from_chars(text.data(), text.data() + text.size(), rounded);
  return rounded;
}

}  // namespace kiln
