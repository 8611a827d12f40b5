#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "registry/dispatch/dispatch.hpp"
#include "tests/support/devices.hpp"
#include "tests/support/tensor_values.hpp"

namespace kiln::test {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

/// Equal with the same sign, zeros too, or both NaN.
void expect_same(const std::vector<float>& actual, const std::vector<float>& expected, const char* op) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (std::isnan(expected[i])) {
      EXPECT_TRUE(std::isnan(actual[i])) << op << " of element " << i << ": " << actual[i];
    } else {
      EXPECT_EQ(actual[i], expected[i]) << op << " of element " << i;
      EXPECT_EQ(std::signbit(actual[i]), std::signbit(expected[i])) << op << " of element " << i;
    }
  }
}

// The expected values are NumPy's.

TEST(SpecialValues, OfOneOperand) {
  for (const Device device : available_devices()) {
    const Tensor x = make_f32({0.f, -0.f, 0.5f, -0.5f, 1.5f, 2.5f, -3.f, kInf, -kInf, kNan}, device);
    expect_same(read_f32(dispatch_gpu_op("sign", {x})), {0, 0, 1, -1, 1, 1, -1, 1, -1, kNan}, "sign");
    expect_same(read_f32(dispatch_gpu_op("round", {x})), {0, -0.f, 0, -0.f, 2, 2, -3, kInf, -kInf, kNan}, "round");
    expect_same(read_f32(dispatch_gpu_op("neg", {x})), {-0.f, 0, -0.5f, 0.5f, -1.5f, -2.5f, 3, -kInf, kInf, kNan},
                "neg");
  }
}

TEST(SpecialValues, OfFloorDivisionAndRemainder) {
  for (const Device device : available_devices()) {
    const Tensor x = make_f32({1, -1, 1, -1, -0.f, 0, 1, -1, kInf, kNan, 7, -7, -1e-30f}, device);
    const Tensor y = make_f32({kInf, kInf, -kInf, -kInf, 1, 0, 0, 0, 2, 1, -2, 2, 3}, device);
    expect_same(read_f32(dispatch_gpu_op("floor_div", {x, y})),
                {0, -1, -1, 0, -0.f, kNan, kInf, -kInf, kNan, kNan, -4, -4, -1}, "floor_div");
    expect_same(read_f32(dispatch_gpu_op("remainder", {x, y})),
                {1, kInf, -kInf, -1, 0, kNan, kNan, kNan, kNan, kNan, -1, 1, 3}, "remainder");
  }
}

/// In 64 bits; of nothing it is 0, and the least number over -1 wraps when it is stored.
std::int64_t floored(std::int64_t x, std::int64_t y) {
  if (y == 0) return 0;
  return x / y - (x % y != 0 && (x < 0) != (y < 0) ? 1 : 0);
}

/// What floored() leaves, not as x - quotient * y, whose product need not fit 64 bits.
std::int64_t floored_remainder(std::int64_t x, std::int64_t y) {
  if (y == 0) return 0;
  const std::int64_t cut = x % y;
  return cut != 0 && (cut < 0) != (y < 0) ? cut + y : cut;
}

TEST(SpecialValues, OfWholeNumbersUpTo32Bits) {
  for (const DType dtype : {DType::i8, DType::i16, DType::i32, DType::u8, DType::u16, DType::u32}) {
    const int bits = static_cast<int>(8 * itemsize_bytes(dtype));
    const bool is_signed = dtype == DType::i8 || dtype == DType::i16 || dtype == DType::i32;
    const std::int64_t least = is_signed ? -(std::int64_t{1} << (bits - 1)) : 0;
    const std::int64_t most = (std::int64_t{1} << (is_signed ? bits - 1 : bits)) - 1;
    std::vector<double> x, y, quotients, remainders;
    const std::int64_t numbers[] = {least, least + 1, least / 2, least / 3, -7, -3,       -2,       -1,       0,
                                    1,     2,         3,         7,         10, most / 3, most / 2, most - 1, most};
    for (const std::int64_t a : numbers)
      for (const std::int64_t b : numbers) {
        if (std::min(a, b) < least) continue;
        const std::int64_t quotient = floored(a, b);
        x.push_back(static_cast<double>(a));
        y.push_back(static_cast<double>(b));
        quotients.push_back(static_cast<double>(quotient > most ? least : quotient));
        remainders.push_back(static_cast<double>(floored_remainder(a, b)));
      }
    const Tensor left = tensor_of_numbers(dtype, x), right = tensor_of_numbers(dtype, y);
    for (const Device device : available_devices()) {
      const auto given = [&](const char* op) {
        return numbers_of(
            to_device(dispatch_gpu_op(op, {to_device(left, device), to_device(right, device)}), Device::cpu()));
      };
      EXPECT_EQ(given("floor_div"), quotients) << name(dtype) << " on " << to_string(device);
      EXPECT_EQ(given("remainder"), remainders) << name(dtype) << " on " << to_string(device);
    }
  }
}

/// Powers of two and what lies beside them, which quotients by floats would miss by one, and products of theirs.
TEST(SpecialValues, OfWholeNumbersOf64Bits) {
  constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();
  std::vector<std::int64_t> numbers = {kLeast, kLeast / 3, -10, -7, -3, 0, 3, 7, 10, -(kLeast / 3), -(kLeast + 1)};
  for (const int bits : {0, 1, 11, 26, 31, 32, 40, 51, 52, 53, 54, 61, 62})
    for (const std::int64_t beside : {-1, 0, 1})
      for (const std::int64_t sign : {-1, 1}) numbers.push_back(sign * ((std::int64_t{1} << bits) + beside));
  for (const std::int64_t factor : {3, 1000003, 67108859})
    for (const std::int64_t other : {-94906267, 46341, 2147483647}) numbers.push_back(factor * other);
  std::vector<std::int64_t> x, y, quotients, remainders;
  for (const std::int64_t a : numbers)
    for (const std::int64_t b : numbers) {
      const bool wraps = a == kLeast && b == -1;
      const std::int64_t quotient = wraps ? kLeast : floored(a, b);
      x.push_back(a);
      y.push_back(b);
      quotients.push_back(quotient);
      remainders.push_back(wraps ? 0 : floored_remainder(a, b));
    }
  for (const Device device : available_devices()) {
    const Tensor left = tensor_of(DType::i64, x, device), right = tensor_of(DType::i64, y, device);
    const auto given = [&](const char* op) { return values_of<std::int64_t>(dispatch_gpu_op(op, {left, right})); };
    EXPECT_EQ(given("floor_div"), quotients) << to_string(device);
    EXPECT_EQ(given("remainder"), remainders) << to_string(device);
  }
}

TEST(SpecialValues, OfNanBounds) {
  for (const Device device : available_devices()) {
    const Tensor x = make_f32({1, kNan, -kInf}, device);
    const double nan = std::numeric_limits<double>::quiet_NaN();
    expect_same(read_f32(dispatch_gpu_op("clamp", {x}, {{"min", nan}})), {kNan, kNan, kNan}, "clamp");
    expect_same(read_f32(dispatch_gpu_op("clamp", {x}, {{"min", 0.0}, {"max", 2.0}})), {1, kNan, 0}, "clamp");
    expect_same(read_f32(dispatch_gpu_op("clamp", {x}, {{"min", 5.0}, {"max", 2.0}})), {2, kNan, 2}, "clamp");
  }
}

}  // namespace
}  // namespace kiln::test
