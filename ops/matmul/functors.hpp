#pragma once

#include "compiler/tl/math.hpp"
#include "ops/common/functors_gelu.hpp"
#include "ops/matmul/iteration.hpp"

// What happens to a product between the accumulator and the output: one description for every kernel of the family,
// over plain numbers, so that it serves tiles and kernels that keep their accumulators otherwise.

namespace kiln::ops {

struct NoActivation {
  template <typename T>
  KILN_DEVICE static T apply(T x) {
    return x;
  }
};
struct ReluActivation {
  template <typename T>
  KILN_DEVICE static T apply(T x) {
    return tl::larger_number(x, T(0));  // NaN stays NaN
  }
};
template <typename T>
KILN_DEVICE T gelu_of(T x) {
  return x * T(0.5) * (T(1) + tl::scalar::erf(x * T(0.70710678118654752440)));
}
#if defined(KILN_TARGET_CUDA)
/// A call: in place, dozens of them side by side take more registers than there are.
__device__ __noinline__ static double gelu_of_double(double x) {
  return gelu_of(x);
}
#endif
/// x * Phi(x) with the error function, torch's default; Hendrycks and Gimpel, "Gaussian Error Linear Units", 2016.
struct GeluActivation {
  template <typename T>
  KILN_DEVICE static T apply(T x) {
#if defined(KILN_TARGET_CUDA)
    if constexpr (tl::is_same<T, double>)
      return gelu_of_double(x);
    else
#endif
      return gelu_of(x);
  }
};
/// The same where the result has 16 bits or fewer.
struct GeluNarrowActivation {
  template <typename T>
  KILN_DEVICE static T apply(T x) {
#if defined(KILN_TARGET_CUDA)
    return gelu_narrow(x);
#else
    return gelu_of(x);
#endif
  }
};
/// x / (1 + exp(-x)). A division that is rounded to nearest branches for unusual numbers, and took half as long as all
/// of a 4096^3 product; sums of products are not as exact as what it would save.
struct SiluActivation {
  template <typename T>
  KILN_DEVICE static T apply(T x) {
    return tl::scalar::quotient(x, T(1) + tl::scalar::exp(-x));
  }
};

/// activation(alpha * product + beta * addend) of one element. Compute is float, double, or int32_t, which wraps.
template <typename ComputeT, typename Activation, int kAddendKind, bool kHasScales>
struct MatmulEpilogue {
  using Compute = ComputeT;
  /// Of MatmulAddend.
  static constexpr int kAddend = kAddendKind;
  /// Whether alpha is to be multiplied by the two scales of scaled_matmul, which lie in device memory.
  static constexpr bool kScaled = kHasScales;

  /// Whether it only multiplies and adds numbers that may be vectors as well.
  static constexpr bool kIsAffine = tl::is_same<Activation, NoActivation> && tl::NumberTraits<Compute>::kIsFloating;

  MatmulScalars<Compute> scalars;

  KILN_DEVICE void scale(Compute scale_a, Compute scale_b) { scalars.alpha *= scale_a * scale_b; }

  KILN_DEVICE Compute apply(Compute product) const { return Activation::apply(scaled(product)); }
  KILN_DEVICE Compute apply(Compute product, Compute addend) const {
    if constexpr (tl::NumberTraits<Compute>::kIsFloating)
      return Activation::apply(tl::scalar::fma(scalars.beta, addend, scaled(product)));
    else
      return Activation::apply(wrapped(scaled(product), times(scalars.beta, addend)));
  }

  /// apply() in two halves: beta * addend, which may serve many elements, and the rest.
  KILN_DEVICE Compute scaled_addend(Compute addend) const { return times(scalars.beta, addend); }
  KILN_DEVICE Compute apply_scaled(Compute product, Compute scaled_addend) const {
    if constexpr (tl::NumberTraits<Compute>::kIsFloating)
      return Activation::apply(tl::scalar::fma(scalars.alpha, product, scaled_addend));
    else
      return Activation::apply(wrapped(scaled(product), scaled_addend));
  }

 private:
  KILN_DEVICE Compute scaled(Compute product) const { return times(scalars.alpha, product); }
  KILN_DEVICE static Compute times(Compute x, Compute y) {
    return tl::wrapping(x, y, [](auto u, auto v) { return u * v; });
  }
  KILN_DEVICE static Compute wrapped(Compute x, Compute y) {
    return tl::wrapping(x, y, [](auto u, auto v) { return u + v; });
  }
};

}  // namespace kiln::ops
