#pragma once

#include <kiln/tl.hpp>

#include "ops/random/iteration.hpp"

// One functor per distribution. draw() makes the neighbouring elements that share a block of Philox: four of 32 bits or
// two of 64.

namespace kiln::ops {

/// Half k of a block, 0 or 1.
KILN_DEVICE tl::uint64_t wide_word(const tl::PhiloxWords& words, int k) {
  return static_cast<tl::uint64_t>(words.word[2 * k + 1]) << 32 | words.word[2 * k];
}

template <typename Compute>
struct Uniform;
template <>
struct Uniform<float> {
  KILN_DEVICE static auto draw(const Distribution& d, const tl::PhiloxWords& words) {
    tl::Drawn<float, 4> drawn;
    KILN_UNROLL for (int i = 0; i < 4; ++i) drawn.element[i] =
        tl::scalar::fma(tl::uniform_float(words.word[i]), d.f32[1], d.f32[0]);
    return drawn;
  }
};
template <>
struct Uniform<double> {
  KILN_DEVICE static auto draw(const Distribution& d, const tl::PhiloxWords& words) {
    tl::Drawn<double, 2> drawn;
    KILN_UNROLL for (int i = 0; i < 2; ++i) drawn.element[i] =
        tl::scalar::fma(tl::uniform_double(wide_word(words, i)), d.f64[1], d.f64[0]);
    return drawn;
  }
};

template <typename Compute>
struct Normal;
template <>
struct Normal<float> {
  KILN_DEVICE static auto draw(const Distribution& d, const tl::PhiloxWords& words) {
    tl::Drawn<float, 4> drawn;
    KILN_UNROLL for (int i = 0; i < 4; i += 2) {
      const auto polar = tl::box_muller(words.word[i], words.word[i + 1]);
      const float radius = tl::exact::product(polar.radius, d.f32[1]);
      drawn.element[i] = tl::scalar::fma(radius, polar.cosine, d.f32[0]);
      drawn.element[i + 1] = tl::scalar::fma(radius, polar.sine, d.f32[0]);
    }
    return drawn;
  }
};
template <>
struct Normal<double> {
  KILN_DEVICE static auto draw(const Distribution& d, const tl::PhiloxWords& words) {
    const auto polar = tl::box_muller(wide_word(words, 0), wide_word(words, 1));
    const double radius = tl::exact::product(polar.radius, d.f64[1]);
    return tl::Drawn<double, 2>{
        {tl::scalar::fma(radius, polar.cosine, d.f64[0]), tl::scalar::fma(radius, polar.sine, d.f64[0])}};
  }
};

/// low + floor(word (high - low) / 2^kBits). Integers wrap into the output's type.
template <int kBits>
struct RandInt;
template <>
struct RandInt<32> {
  KILN_DEVICE static auto draw(const Distribution& d, const tl::PhiloxWords& words) {
    tl::Drawn<tl::uint64_t, 4> drawn;
    KILN_UNROLL for (int i = 0; i < 4; ++i) drawn.element[i] =
        d.bits[0] + tl::scalar::umulhi(words.word[i], static_cast<tl::uint32_t>(d.bits[1]));
    return drawn;
  }
};
template <>
struct RandInt<64> {
  KILN_DEVICE static auto draw(const Distribution& d, const tl::PhiloxWords& words) {
    tl::Drawn<tl::uint64_t, 2> drawn;
    KILN_UNROLL for (int i = 0; i < 2; ++i) drawn.element[i] =
        d.bits[0] + tl::scalar::umulhi(wide_word(words, i), static_cast<tl::uint64_t>(d.bits[1]));
    return drawn;
  }
};

struct Bernoulli {
  KILN_DEVICE static auto draw(const Distribution& d, const tl::PhiloxWords& words) {
    tl::Drawn<bool, 4> drawn;
    KILN_UNROLL for (int i = 0; i < 4; ++i) drawn.element[i] = words.word[i] < d.bits[0];
    return drawn;
  }
};

template <typename Compute>
struct Dropout : Bernoulli {
  KILN_DEVICE static Compute scale(const Distribution& d) {
    if constexpr (tl::is_same<Compute, double>)
      return d.f64[0];
    else
      return d.f32[0];
  }
  /// Not x * mask: what is dropped is 0 even where x is NaN or infinite.
  template <typename Dropped, typename X>
  KILN_DEVICE static auto apply(const Distribution& d, const Dropped& dropped, const X& x) {
    return tl::where(dropped, Compute(0), tl::cast<Compute>(x) * scale(d));
  }
};

}  // namespace kiln::ops
