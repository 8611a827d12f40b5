#pragma once

#include <kiln/tl.hpp>

#include "ops/rope/iteration.hpp"

// Angles of rotary embeddings. They are counted in turns, as fractions of 2^64: a position times a fraction wraps where
// a turn ends, so that the product of integers is the angle with its range reduced, exactly, at any position.

namespace kiln::ops {

/// How far pair `pair` turns in one position. Products of up to 9 fractions, each cut off at 2^-64.
template <int PAIR_BITS, bool BLENDS>
KILN_DEVICE tl::uint64_t turn_of_pair(tl::int32_t pair, const RopeTurns& turns) {
  tl::uint64_t turn = turns.first;
  KILN_UNROLL for (int bit = 0; bit < PAIR_BITS; ++bit) {
    const tl::uint64_t slower = tl::scalar::umulhi(turn, static_cast<tl::uint64_t>(turns.ratios[bit]));
    turn = (pair >> bit & 1) != 0 ? slower : turn;
  }
  if constexpr (BLENDS) {
    const double exact = static_cast<double>(turn);
    double kept = tl::scalar::fma(exact, turns.slope, -turns.start);
    kept = kept < 0 ? 0 : kept;
    const double blended = exact * tl::scalar::fma(kept, 1 - turns.least, turns.least);
    turn = kept < 1 ? static_cast<tl::uint64_t>(blended) : turn;
  }
  return turn;
}

// Cosine and sine of t quarter turns, t from -1/2 to 1/2: 1 + t^2 C(t^2) and t S(t^2), where C and S interpolate at
// Chebyshev's nodes.

KILN_DEVICE float cosine_of_quarters(float t) {
  const float z = t * t;
  float c = tl::scalar::fma(0x1.db6492p-11f, z, -0x1.55cb98p-6f);
  c = tl::scalar::fma(c, z, 0x1.03c1eap-2f);
  c = tl::scalar::fma(c, z, -0x1.3bd3ccp+0f);
  return tl::scalar::fma(c, z, 1.0f);
}

KILN_DEVICE float sine_of_quarters(float t) {
  const float z = t * t;
  float s = tl::scalar::fma(-0x1.2d9b4p-8f, z, 0x1.465ec4p-4f);
  s = tl::scalar::fma(s, z, -0x1.4abbbap-1f);
  // Half pi in two parts: its rounding would be half of the error.
  s = tl::scalar::fma(s, z, -0x1.a1114ap-25f);
  return tl::scalar::fma(t, 0x1.921fb6p+0f, t * s);
}

/// Cosines and sines of a tile of angles in turns, as fractions of 2^64: within 2^-23.6 of the exact values.
template <typename Angles>
KILN_DEVICE auto cosine_and_sine(const Angles& angles) {
  const auto shifted = angles + (tl::uint64_t{1} << 61);
  const auto quarter = tl::cast<tl::int32_t>(shifted >> tl::uint64_t{62});
  const auto beyond = tl::cast<tl::int64_t>(shifted & ((tl::uint64_t{1} << 62) - 1)) - (tl::int64_t{1} << 61);
  const auto t = tl::cast<float>(beyond) * 0x1p-62f;
  const auto c = tl::map_elementwise([](float x) { return cosine_of_quarters(x); }, t);
  const auto s = tl::map_elementwise([](float x) { return sine_of_quarters(x); }, t);
  const auto is_turned = (quarter & 1) != 0;
  const auto negated = [](const auto& x, const auto& two) {
    return tl::bitcast<float>(tl::bitcast<tl::int32_t>(x) ^ (two << 30));
  };
  return tl::Tuple{negated(tl::where(is_turned, s, c), (quarter + 1) & 2),
                   negated(tl::where(is_turned, c, s), quarter & 2)};
}

}  // namespace kiln::ops
