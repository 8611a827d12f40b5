#pragma once

#include "compiler/tl/math.hpp"
#include "compiler/tl/philox.hpp"

#if defined(KILN_TARGET_CUDA)
#include "compiler/tl/cuda/exact_math.hpp"
#else
#include "compiler/tl/cpu/exact_math.hpp"
#endif

namespace kiln::tl {

// Numbers from Philox's words, the same bits on every target: logarithm, sine and cosine are polynomials of operations
// that round alike everywhere, for the targets' own functions differ in their last bits.

/// The sum of coefficients[i] x^i.
template <typename T, int kCount>
KILN_DEVICE T polynomial(const T (&coefficients)[kCount], T x) {
  T value = coefficients[kCount - 1];
  KILN_UNROLL for (int i = kCount - 2; i >= 0; --i) value = scalar::fma(value, x, coefficients[i]);
  return value;
}

/// Triton's uint_to_uniform_float: the lower 31 bits of the word, complemented where the 32nd is set, in [0, 1) with a
/// float's relative precision.
KILN_DEVICE float uniform_float(uint32_t word) {
  const int32_t bits = static_cast<int32_t>(word);
  return exact::product(static_cast<float>(bits ^ (bits >> 31)), 4.6566127342e-10f);
}
/// The upper 53 bits, in [0, 1).
KILN_DEVICE double uniform_double(uint64_t word) {
  return static_cast<double>(static_cast<int64_t>(word >> 11)) * 0x1p-53;
}

/// What Box and Muller make of two uniform numbers: a normal pair is radius * cosine, radius * sine. The radius carries
/// a sign that cosine and sine share.
template <typename T>
struct Polar {
  T radius, cosine, sine;
};

// Both use -2 log(m 2^e) = e (-2 log 2) + f Q(f), f = m - 1 in [-1/3, 1/3], and turn by half turns: with t the angle to
// the nearest one, in [-pi/2, pi/2], sine and cosine are t S(t^2) and C(t^2) times that turn's sign. Q, S and C are
// minimax polynomials (Remez' algorithm), of relative error 3e-8 (float) and 2e-17 (double) or less.

/// Triton's pair_uniform_to_normal of two words: u1 = max(uniform_float(first), 1e-7), angle 2 pi
/// uniform_float(second); up to float's rounding of the latter, which is left out. Normal numbers so made end at 5.68.
KILN_DEVICE Polar<float> box_muller(uint32_t first, uint32_t second) {
  constexpr int32_t kLeast = __builtin_bit_cast(int32_t, 1e-7f), kTwoThirds = 0x3f2aaaab;
  // Positive floats are ordered as the integers of the same bits.
  const int32_t uniform = __builtin_bit_cast(int32_t, uniform_float(first));
  const int32_t bits = (uniform > kLeast ? uniform : kLeast) - kTwoThirds;
  const int32_t exponent = bits & ~0x7fffff;
  const float f = exact::sum(__builtin_bit_cast(float, bits - exponent + kTwoThirds), -1.0f);
  constexpr float kLog[] = {-2.0f,          0x1.ffffd6p-1f,  -0x1.5554fap-1f, 0x1.00147ep-1f, -0x1.99d428p-2f,
                            0x1.5032f4p-2f, -0x1.1ea24ep-2f, 0x1.3b2816p-2f,  -0x1.1f42a6p-2f};
  constexpr float kMinusTwoLogTwo = -0x1.62e43p0f * 0x1p-23f;  // of an exponent that is still 23 bits up
  const float square =
      scalar::fma(polynomial(kLog, f), f, exact::product(static_cast<float>(exponent), kMinusTwoLogTwo));
  const float radius = exact::square_root(square);

  // 2^31 is a turn; bits above it leave with the shift. A word with its upper bit set stands for its complement, whose
  // angle is the opposite one to 2^-31 of a turn.
  constexpr float kAngle = 0x1.921fb6p1f * 0x1p-32f;
  const float opposite = static_cast<float>(static_cast<int32_t>(second << 2));
  const float t = exact::product(
      __builtin_bit_cast(float, __builtin_bit_cast(uint32_t, opposite) ^ (second & 0x80000000u)), kAngle);
  const float z = exact::product(t, t);
  constexpr float kSine[] = {1.0f, -0x1.55554cp-3f, 0x1.110ed4p-7f, -0x1.9f7p-13f, 0x1.5dbdf2p-19f};
  constexpr float kCosine[] = {1.0f, -0x1.0p-1f, 0x1.555548p-5f, -0x1.6c138p-10f, 0x1.9f6f7ep-16f, -0x1.18003p-22f};
  const uint32_t sign = ((second << 1) + 0x40000000u) & 0x80000000u;
  return {__builtin_bit_cast(float, __builtin_bit_cast(uint32_t, radius) ^ sign), polynomial(kCosine, z),
          exact::product(t, polynomial(kSine, z))};
}

/// u1 = (upper 53 bits of the first + 1) 2^-53, in (0, 1]; angle 2 pi 2^-64 second. Normal numbers so made end at 8.57.
KILN_DEVICE Polar<double> box_muller(uint64_t first, uint64_t second) {
  constexpr int64_t kTwoThirds = 0x3fe5555555555555;
  const double uniform = static_cast<double>(static_cast<int64_t>(first >> 11) + 1) * 0x1p-53;
  const int64_t bits = __builtin_bit_cast(int64_t, uniform) - kTwoThirds;
  const int64_t exponent = bits >> 52;
  const double f = exact::sum(__builtin_bit_cast(double, (bits & 0xfffffffffffff) + kTwoThirds), -1.0);
  constexpr double kLog[] = {-0x1.0p+1,
                             0x1.ffffffffffff8p-1,
                             -0x1.5555555555531p-1,
                             0x1.00000000014b9p-1,
                             -0x1.99999999a0f8ap-2,
                             0x1.555555535963fp-2,
                             -0x1.249249205c2e2p-2,
                             0x1.000000b0cdb9ep-2,
                             -0x1.c71c742ea3bdfp-3,
                             0x1.9999565228ee6p-3,
                             -0x1.745cb1fead761p-3,
                             0x1.555cfcddc6840p-3,
                             -0x1.3b1dfe5c60776p-3,
                             0x1.24077bd69c1b0p-3,
                             -0x1.1066493e9a9c3p-3,
                             0x1.0624941e4cca9p-3,
                             -0x1.efebeff3ff51dp-4,
                             0x1.737cc7357da10p-4,
                             -0x1.5568c456bac9dp-4,
                             0x1.6426eff4709dbp-3,
                             -0x1.5cb19022c77eap-3};
  constexpr double kMinusTwoLogTwo = -0x1.62e42fefa39efp0;
  const double square = scalar::fma(
      polynomial(kLog, f), f, exact::product(static_cast<double>(static_cast<int32_t>(exponent)), kMinusTwoLogTwo));
  const double radius = exact::square_root(square);

  constexpr double kAngle = 0x1.921fb54442d18p1 * 0x1p-64;
  const double t = exact::product(static_cast<double>(static_cast<int64_t>(second << 1)), kAngle);
  const double z = exact::product(t, t);
  constexpr double kSine[] = {1.0,
                              -0x1.5555555555555p-3,
                              0x1.11111111110c1p-7,
                              -0x1.a01a01a0148bbp-13,
                              0x1.71de3a5287bd9p-19,
                              -0x1.ae6454cb53a17p-26,
                              0x1.6123cb283da49p-33,
                              -0x1.ae431d6c88617p-41,
                              0x1.88299eeca88acp-49};
  constexpr double kCosine[] = {1.0,
                                -0.5,
                                0x1.5555555555555p-5,
                                -0x1.6c16c16c16b84p-10,
                                0x1.a01a01a013b6bp-16,
                                -0x1.27e4fb7518419p-22,
                                0x1.1eed8dd9f1787p-29,
                                -0x1.9396a0bba8f82p-37,
                                0x1.ae44038be1df7p-45,
                                -0x1.5cb61b88c3ff2p-53};
  const uint64_t sign = (second + (uint64_t{1} << 62)) & (uint64_t{1} << 63);
  return {__builtin_bit_cast(double, __builtin_bit_cast(uint64_t, radius) ^ sign), polynomial(kCosine, z),
          exact::product(t, polynomial(kSine, z))};
}

/// uniform_float of words: of a tile, or of one.
template <Operand Words>
KILN_DEVICE auto uniform_floats(const Words& words) {
  if constexpr (Number<Words>)
    return uniform_float(words);
  else
    return map_registers([](uint32_t word) { return uniform_float(word); }, words);
}
/// Four floats in [0, 1) for each offset (a tile or a number): a Tuple, the bits of triton.language.rand4x.
template <Integer Seed, Operand Offset>
KILN_DEVICE auto rand4x(Seed seed, const Offset& offset) {
  return map_parts([](const auto& words) { return uniform_floats(words); }, randint4x(seed, offset));
}
/// One for each offset, the bits of triton.language.rand.
template <Integer Seed, Operand Offset>
KILN_DEVICE auto rand(Seed seed, const Offset& offset) {
  return uniform_floats(randint(seed, offset));
}

/// Two normal numbers from two words.
KILN_DEVICE Tuple<float, float> normal_pair(uint32_t first, uint32_t second) {
  const Polar<float> polar = box_muller(first, second);
  return {exact::product(polar.radius, polar.cosine), exact::product(polar.radius, polar.sine)};
}
/// Two tiles of them from two of words.
template <typename S, typename L>
KILN_DEVICE auto normal_pair(const Tile<uint32_t, S, L>& first, const Tile<uint32_t, S, L>& second) {
  Tuple<Tile<float, S, L>, Tile<float, S, L>> result;
  KILN_UNROLL for (int r = 0; r < L::kRegisters; ++r) {
    const auto pair = normal_pair(first.registers[r], second.registers[r]);
    result.first.registers[r] = pair.first;
    result.second.registers[r] = pair.second;
  }
  return result;
}
/// Four floats of mean 0 and variance 1 for each offset, from the words of triton.language.randn4x and by its formula;
/// the last bits differ from Triton's and are the same on every target.
template <Integer Seed, Operand Offset>
KILN_DEVICE auto randn4x(Seed seed, const Offset& offset) {
  const auto words = randint4x(seed, offset);
  const auto one = normal_pair(words.first, words.second), other = normal_pair(words.third, words.fourth);
  return Tuple{one.first, one.second, other.first, other.second};
}
/// The first of randn4x.
template <Integer Seed, Operand Offset>
KILN_DEVICE auto randn(Seed seed, const Offset& offset) {
  return randn4x(seed, offset).first;
}

}  // namespace kiln::tl
