#include "core/float_formats.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#if defined(__SSE2__)
#include <immintrin.h>
#endif

namespace kiln::formats {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// One format by its definition, and the two functions under test.
struct Format {
  std::string name;
  int exponent_bits;
  int mantissa_bits;
  bool has_infinity;
  float (*widen)(unsigned int bits);
  unsigned int (*narrow)(float value);

  int total_bits() const { return 1 + exponent_bits + mantissa_bits; }
  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  unsigned int sign_bit() const { return 1u << (total_bits() - 1); }
  unsigned int exponent_ones() const { return ((1u << exponent_bits) - 1u) << mantissa_bits; }
  /// The code after the largest finite value: infinity, or NaN for e4m3fn.
  unsigned int overflow_code() const { return has_infinity ? exponent_ones() : sign_bit() - 1u; }
  bool is_nan(unsigned int bits) const {
    const unsigned int magnitude = bits & (sign_bit() - 1u);
    return has_infinity ? magnitude > exponent_ones() : magnitude == sign_bit() - 1u;
  }
  /// The value that the fields of a magnitude spell, special codes taken as numbers; exact in double.
  double spelled(unsigned int magnitude) const {
    const int exponent = static_cast<int>(magnitude >> mantissa_bits);
    const double mantissa = static_cast<double>(magnitude & ((1u << mantissa_bits) - 1u));
    if (exponent == 0) return std::ldexp(mantissa, 1 - bias() - mantissa_bits);
    return std::ldexp(mantissa + std::ldexp(1.0, mantissa_bits), exponent - bias() - mantissa_bits);
  }
};

std::vector<Format> formats() {
  return {
      {"f16", 5, 10, true, [](unsigned int bits) { return f16_to_f32(static_cast<unsigned short>(bits)); },
       [](float value) -> unsigned int { return f32_to_f16(value); }},
      {"bf16", 8, 7, true, [](unsigned int bits) { return bf16_to_f32(static_cast<unsigned short>(bits)); },
       [](float value) -> unsigned int { return f32_to_bf16(value); }},
      {"fp8e4m3", 4, 3, false, [](unsigned int bits) { return fp8e4m3_to_f32(static_cast<unsigned char>(bits)); },
       [](float value) -> unsigned int { return f32_to_fp8e4m3(value); }},
      {"fp8e5m2", 5, 2, true, [](unsigned int bits) { return fp8e5m2_to_f32(static_cast<unsigned char>(bits)); },
       [](float value) -> unsigned int { return f32_to_fp8e5m2(value); }},
  };
}

/// Rounds by looking: finds the neighbours in the list of all values and compares with their midpoint, which double
/// holds exactly.
class Oracle {
 public:
  explicit Oracle(const Format& format) : format_(format) {
    for (unsigned int code = 0; code <= format.overflow_code(); ++code) values_.push_back(format.spelled(code));
  }
  unsigned int narrow(float value) const {
    const unsigned int sign = std::signbit(value) ? format_.sign_bit() : 0u;
    const double magnitude = std::fabs(static_cast<double>(value));
    const auto above = std::upper_bound(values_.begin(), values_.end(), magnitude);
    if (above == values_.end()) return sign | format_.overflow_code();
    const auto upper = static_cast<unsigned int>(above - values_.begin());
    const unsigned int lower = upper - 1u;
    const double midpoint = (values_[lower] + values_[upper]) / 2;
    if (magnitude != midpoint) return sign | (magnitude < midpoint ? lower : upper);
    return sign | (lower % 2 == 0 ? lower : upper);
  }
  const std::vector<double>& values() const { return values_; }

 private:
  const Format& format_;
  std::vector<double> values_;  // by code, ascending, the overflow code's as if it were a number
};

class FloatFormats : public testing::TestWithParam<int> {
 protected:
  const Format format_ = formats()[static_cast<std::size_t>(GetParam())];
};

TEST_P(FloatFormats, WidensEveryPatternToTheValueItSpells) {
  for (unsigned int bits = 0; bits < (1u << format_.total_bits()); ++bits) {
    const float value = format_.widen(bits);
    const unsigned int magnitude = bits & (format_.sign_bit() - 1u);
    ASSERT_EQ(std::signbit(value), (bits & format_.sign_bit()) != 0) << std::hex << bits;
    if (format_.is_nan(bits)) {
      ASSERT_TRUE(std::isnan(value)) << std::hex << bits;
    } else if (format_.has_infinity && magnitude == format_.exponent_ones()) {
      ASSERT_EQ(std::fabs(value), kInfinity) << std::hex << bits;
    } else {
      ASSERT_EQ(std::fabs(static_cast<double>(value)), format_.spelled(magnitude)) << std::hex << bits;
    }
  }
}

TEST_P(FloatFormats, EveryPatternRoundTrips) {
  for (unsigned int bits = 0; bits < (1u << format_.total_bits()); ++bits) {
    const unsigned int back = format_.narrow(format_.widen(bits));
    if (format_.is_nan(bits)) {
      ASSERT_TRUE(format_.is_nan(back)) << std::hex << bits;
      ASSERT_EQ(back & format_.sign_bit(), bits & format_.sign_bit()) << std::hex << bits;
    } else {
      ASSERT_EQ(back, bits) << std::hex << bits;
    }
  }
}

TEST_P(FloatFormats, RoundsBoundariesToNearestEven) {
  const Oracle oracle(format_);
  const auto check = [&](double exact) {
    const auto value = static_cast<float>(exact);
    for (float near : {std::nextafter(value, -kInfinity), value, std::nextafter(value, kInfinity)})
      for (float input : {near, -near})
        ASSERT_EQ(format_.narrow(input), oracle.narrow(input)) << std::hexfloat << input;
  };
  const std::vector<double>& values = oracle.values();
  for (std::size_t code = 0; code + 1 < values.size(); ++code) {
    check(values[code]);
    check((values[code] + values[code + 1]) / 2);
    if (HasFatalFailure()) return;
  }
  for (float input : {std::numeric_limits<float>::denorm_min(), std::numeric_limits<float>::min(),
                      std::numeric_limits<float>::max(), kInfinity})
    check(static_cast<double>(input));
}

TEST_P(FloatFormats, RoundsRandomBitsToNearestEven) {
  const Oracle oracle(format_);
  const unsigned int seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 engine(seed);
  const auto random = [&] { return static_cast<std::uint32_t>(engine()); };
  // Random exponents mostly overflow or underflow, so half of the inputs are drawn from the format's own range.
  const int lowest = 1 - format_.bias() - format_.mantissa_bits - 2;
  std::uniform_int_distribution<int> exponent(lowest, format_.bias() + 2);
  for (int i = 0; i < 500'000; ++i) {
    float value = std::bit_cast<float>(random());
    if (std::isnan(value)) continue;
    ASSERT_EQ(format_.narrow(value), oracle.narrow(value)) << std::hexfloat << value;
    value = std::ldexp(std::bit_cast<float>((random() & 0x807fffffu) | 0x3f800000u), exponent(engine));
    ASSERT_EQ(format_.narrow(value), oracle.narrow(value)) << std::hexfloat << value;
  }
}

TEST_P(FloatFormats, KeepsEveryNaNANaN) {
  for (std::uint32_t payload_bit = 0; payload_bit < 23; ++payload_bit)
    for (std::uint32_t sign : {0u, 0x80000000u}) {
      const float nan = std::bit_cast<float>(sign | 0x7f800000u | (1u << payload_bit));
      const unsigned int bits = format_.narrow(nan);
      EXPECT_TRUE(format_.is_nan(bits)) << payload_bit;
      EXPECT_EQ((bits & format_.sign_bit()) != 0, sign != 0) << payload_bit;
    }
}

#if defined(__SSE2__)
TEST_P(FloatFormats, FlushToZeroChangesNothing) {
  // Kernels may run in this mode. f32 subnormals are inputs only of bf16, which never enters the floating-point unit.
  const unsigned int patterns = 1u << format_.total_bits();
  std::vector<std::uint32_t> widened(patterns);
  std::vector<unsigned int> narrowed(patterns);
  const unsigned int mode = _mm_getcsr();
  _mm_setcsr(mode | 0x8040u);  // flush to zero, denormals are zero
  for (unsigned int bits = 0; bits < patterns; ++bits) {
    const float value = format_.widen(bits);
    widened[bits] = std::bit_cast<std::uint32_t>(value);
    narrowed[bits] = format_.narrow(value);
  }
  _mm_setcsr(mode);
  for (unsigned int bits = 0; bits < patterns; ++bits) {
    const float value = format_.widen(bits);
    ASSERT_EQ(widened[bits], std::bit_cast<std::uint32_t>(value)) << std::hex << bits;
    ASSERT_EQ(narrowed[bits], format_.narrow(value)) << std::hex << bits;
  }
}
#endif

INSTANTIATE_TEST_SUITE_P(All, FloatFormats, testing::Range(0, 4), [](const testing::TestParamInfo<int>& parameter) {
  return formats()[static_cast<std::size_t>(parameter.param)].name;
});

TEST(FloatFormatsOverflow, E4M3TurnsToNaNAboveTheLastTie) {
  EXPECT_EQ(f32_to_fp8e4m3(448.0f), 0x7e);
  EXPECT_EQ(f32_to_fp8e4m3(464.0f), 0x7e);  // halfway to the 480 that does not exist
  EXPECT_EQ(f32_to_fp8e4m3(std::nextafter(464.0f, 1000.0f)), 0x7f);
  EXPECT_EQ(f32_to_fp8e4m3(-kInfinity), 0xff);
}

TEST(FloatFormatsOverflow, OthersTurnToInfinityFromTheLastTieOn) {
  EXPECT_EQ(f32_to_fp8e5m2(61440.0f), 0x7c);
  EXPECT_EQ(f32_to_fp8e5m2(std::nextafter(61440.0f, 0.0f)), 0x7b);
  EXPECT_EQ(f32_to_f16(65520.0f), 0x7c00);
  EXPECT_EQ(f32_to_f16(std::nextafter(65520.0f, 0.0f)), 0x7bff);
  EXPECT_EQ(f32_to_bf16(std::numeric_limits<float>::max()), 0x7f80);
}

TEST(FloatFormatsConstant, EvaluatesAtCompileTime) {
  static_assert(f32_to_f16(1.0f) == 0x3c00 && f32_to_f16(kInfinity) == 0x7c00 && f32_to_f16(0x1p-24f) == 1);
  static_assert(f32_to_bf16(1.0f) == 0x3f80 && bf16_to_f32(0x3f80) == 1.0f && f16_to_f32(1) == 0x1p-24f);
  static_assert(f32_to_fp8e4m3(1.0f) == 0x38 && fp8e4m3_to_f32(1) == 0x1p-9f);
  static_assert(f32_to_fp8e5m2(1.0f) == 0x3c && fp8e5m2_to_f32(1) == 0x1p-16f);
  static_assert(f32_to_f16(std::numeric_limits<float>::quiet_NaN()) == 0x7e00);
  EXPECT_EQ(f32_to_fp8e5m2(std::numeric_limits<float>::quiet_NaN()), 0x7f);
}

#if defined(__FLT16_MANT_DIG__)
TEST(FloatFormatsCompiler, F16AgreesWithTheCompiler) {
  for (unsigned int bits = 0; bits < 0x10000u; ++bits) {
    const auto half = std::bit_cast<_Float16>(static_cast<std::uint16_t>(bits));
    const float value = f16_to_f32(static_cast<unsigned short>(bits));
    if (std::isnan(value)) continue;
    ASSERT_EQ(value, static_cast<float>(half)) << std::hex << bits;
  }
  const unsigned int seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 engine(seed);
  const auto random = [&] { return static_cast<std::uint32_t>(engine()); };
  for (int i = 0; i < 1'000'000; ++i) {
    // Exponents from 2^-27 to 2^17, where all of f16's rounding happens.
    const std::uint32_t exponent = 100u + random() % 45u;
    const float value = std::bit_cast<float>((random() & 0x807fffffu) | (exponent << 23));
    ASSERT_EQ(f32_to_f16(value), std::bit_cast<std::uint16_t>(static_cast<_Float16>(value))) << std::hexfloat << value;
  }
}
#endif

}  // namespace
}  // namespace kiln::formats
