#include "ops/elementwise/reference_functions.hpp"

namespace kiln::elementwise {

double floor_divide(double x, double y) {
  if (y == 0) return x / y;
  // From the exact remainder: floor(x / y) alone is one off where the quotient rounds up to an integer.
  double remainder = std::fmod(x, y);
  double quotient = (x - remainder) / y;
  if (remainder != 0 && std::signbit(remainder) != std::signbit(y)) quotient -= 1;
  if (quotient == 0) return std::copysign(0.0, x / y);
  const double whole = std::floor(quotient);
  return quotient - whole > 0.5 ? whole + 1 : whole;
}

std::int64_t floor_divide(std::int64_t x, std::int64_t y) {
  if (y == 0) return 0;
  if (y == -1) return minus<std::int64_t>(0, x);  // the hardware traps on the one case that overflows
  const std::int64_t quotient = x / y;
  return x % y != 0 && (x < 0) != (y < 0) ? quotient - 1 : quotient;
}

std::uint64_t floor_divide(std::uint64_t x, std::uint64_t y) {
  return y == 0 ? 0 : x / y;
}

double floor_remainder(double x, double y) {
  const double remainder = std::fmod(x, y);
  if (remainder == 0) return std::copysign(0.0, y);
  return std::signbit(remainder) != std::signbit(y) ? remainder + y : remainder;
}

std::int64_t floor_remainder(std::int64_t x, std::int64_t y) {
  if (y == 0 || y == -1) return 0;
  const std::int64_t remainder = x % y;
  return remainder != 0 && (remainder < 0) != (y < 0) ? remainder + y : remainder;
}

std::uint64_t floor_remainder(std::uint64_t x, std::uint64_t y) {
  return y == 0 ? 0 : x % y;
}

double power(double x, double y) {
  return std::pow(x, y);
}

std::uint64_t power(std::uint64_t x, std::uint64_t y) {
  std::uint64_t result = 1;
  for (; y != 0; y >>= 1, x *= x)
    if ((y & 1) != 0) result *= x;
  return result;
}

std::int64_t power(std::int64_t x, std::int64_t y) {
  if (y >= 0) return static_cast<std::int64_t>(power(static_cast<std::uint64_t>(x), static_cast<std::uint64_t>(y)));
  if (x == 1) return 1;
  if (x == -1) return (y & 1) != 0 ? -1 : 1;
  return 0;
}

std::int64_t shift_left(std::int64_t x, std::int64_t y, int width_bits) {
  return static_cast<std::int64_t>(
      shift_left(static_cast<std::uint64_t>(x), static_cast<std::uint64_t>(y), width_bits));
}

std::uint64_t shift_left(std::uint64_t x, std::uint64_t y, int width_bits) {
  return y >= static_cast<std::uint64_t>(width_bits) ? 0 : x << y;
}

std::int64_t shift_right(std::int64_t x, std::int64_t y, int width_bits) {
  return y < 0 || y >= width_bits ? (x < 0 ? -1 : 0) : x >> y;
}

std::uint64_t shift_right(std::uint64_t x, std::uint64_t y, int width_bits) {
  return y >= static_cast<std::uint64_t>(width_bits) ? 0 : x >> y;
}

}  // namespace kiln::elementwise
