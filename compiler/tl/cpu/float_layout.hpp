#pragma once

#include "compiler/tl/target.hpp"

namespace kiln::tl::scalar {

/// How the bits of a float or double lie, for functions that take numbers apart.
template <typename T>
struct FloatLayout;
template <>
struct FloatLayout<float> {
  using Bits = uint32_t;
  static constexpr int kMantissaBits = 23, kBias = 127;
  static constexpr float kSmallestNormal = 0x1p-126f;
};
template <>
struct FloatLayout<double> {
  using Bits = uint64_t;
  static constexpr int kMantissaBits = 52, kBias = 1023;
  static constexpr double kSmallestNormal = 0x1p-1022;
};

/// coefficients[kFrom] + coefficients[kFrom + 1] * x + ... By recursion: a loop would be one inside a tile's, which
/// vectors are made of.
template <int kFrom = 0, typename T, int kCount>
KILN_DEVICE T polynomial(const T (&coefficients)[kCount], T x) {
#pragma clang fp contract(fast)
  if constexpr (kFrom == kCount - 1)
    return coefficients[kFrom];
  else
    return polynomial<kFrom + 1>(coefficients, x) * x + coefficients[kFrom];
}

}  // namespace kiln::tl::scalar
