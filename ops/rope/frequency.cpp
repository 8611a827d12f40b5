#include "ops/rope/frequency.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>
#include <string_view>

#include "core/errors.hpp"

namespace kiln::rope {
namespace {

constexpr long double kTurn = 2 * std::numbers::pi_v<long double>;

double number_from(std::string_view op, const Attributes& attributes, std::string_view name, double least,
                   bool may_be_least) {
  const double value = attributes.get_double(name);
  if (!std::isfinite(value) || value < least || (value == least && !may_be_least))
    throw_value_error(fmt::format("op '{}': attribute '{}' is {}, expected a finite number {} {}", op, name, value,
                                  may_be_least ? "of at least" : "above", least));
  return value;
}

/// `value` in [0, 1] as a fraction of 2^64, the largest there is for 1.
unsigned long long fraction(long double value) {
  constexpr long double kWhole = 0x1p64L;
  const long double scaled = std::round(value * kWhole);
  return scaled < kWhole ? static_cast<unsigned long long>(scaled) : ~0ULL;
}

}  // namespace

long double Frequencies::turns(std::int64_t pair) const {
  const long double exponent = static_cast<long double>(pair) / static_cast<long double>(pairs);
  const long double plain = std::pow(static_cast<long double>(base), -exponent) / kTurn;
  if (!blends) return plain / factor;
  const long double kept =
      std::clamp((plain * original_positions - low) / (static_cast<long double>(high) - low), 0.0L, 1.0L);
  return plain * (kept + (1 - kept) / factor);
}

ops::RopeTurns Frequencies::fractions() const {
  ops::RopeTurns result{};
  result.first = fraction(1 / (blends ? kTurn : kTurn * factor));
  for (int bit = 0; bit < ops::kMostRopePairBits; ++bit) {
    const long double exponent = static_cast<long double>(1 << bit) / static_cast<long double>(pairs);
    result.ratios[bit] = fraction(std::pow(static_cast<long double>(base), -exponent));
  }
  if (blends) {
    result.slope = original_positions / (high - low) * 0x1p-64;
    result.start = low / (high - low);
    result.least = 1 / factor;
  }
  return result;
}

Frequencies frequencies(std::string_view op, const Attributes& attributes, std::int64_t pairs) {
  Frequencies result;
  result.pairs = pairs;
  result.base = number_from(op, attributes, "base", 1, false);
  result.factor = number_from(op, attributes, "factor", 1, true);
  const std::string& scaling = attributes.get_string("scaling");
  if (scaling != "none" && scaling != "linear" && scaling != "llama3")
    throw_value_error(
        fmt::format("op '{}': attribute 'scaling' is \"{}\", expected \"none\", \"linear\" or \"llama3\"; for other "
                    "ways give 'cos' "
                    "and 'sin'",
                    op, scaling));
  if (scaling == "none" && result.factor != 1)
    throw_value_error(
        fmt::format("op '{}': attribute 'factor' is {} with scaling \"none\", which does not use it; give scaling "
                    "\"linear\" or \"llama3\"",
                    op, result.factor));
  if (scaling != "llama3") return result;
  result.blends = true;
  result.low = number_from(op, attributes, "low_freq_factor", 0, false);
  result.high = number_from(op, attributes, "high_freq_factor", 0, false);
  if (result.high <= result.low)
    throw_value_error(fmt::format(
        "op '{}': attributes 'low_freq_factor' and 'high_freq_factor' are {} and {}, expected the second to be larger",
        op, result.low, result.high));
  const std::int64_t original = attributes.get_int("original_max_position");
  if (original < 1)
    throw_value_error(fmt::format(
        "op '{}': attribute 'original_max_position' is {}, expected the positions that the model was first trained "
        "with, 1 or more",
        op, original));
  result.original_positions = static_cast<double>(original);
  return result;
}

}  // namespace kiln::rope
