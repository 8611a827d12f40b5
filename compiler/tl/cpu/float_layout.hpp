#pragma once

#include "compiler/tl/target.hpp"

namespace kiln::tl::scalar {

/// How the bits of a float or double lie, for functions that take numbers apart; and log(2) in two parts, of whose
/// first the multiples by any exponent have no error.
template <typename T>
struct FloatLayout;
template <>
struct FloatLayout<float> {
  using Bits = uint32_t;
  static constexpr int kMantissaBits = 23, kBias = 127;
  static constexpr float kSmallestNormal = 0x1p-126f;
  static constexpr float kLn2High = 0x1.62e4p-1f, kLn2Low = 0x1.7f7d1cp-20f;
};
template <>
struct FloatLayout<double> {
  using Bits = uint64_t;
  static constexpr int kMantissaBits = 52, kBias = 1023;
  static constexpr double kSmallestNormal = 0x1p-1022;
  static constexpr double kLn2High = 0x1.62e42fefa38p-1, kLn2Low = 0x1.ef35793c7673p-45;
};

}  // namespace kiln::tl::scalar
