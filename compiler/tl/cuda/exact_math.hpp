#pragma once

#include "compiler/tl/cuda/scalar_math.hpp"

namespace kiln::tl::exact {

// Operations rounded once each, as IEEE 754 defines them and as the CPU computes them: NVRTC fuses a product and a sum
// of operators, and must not where the last bit counts.

KILN_DEVICE float product(float x, float y) {
  return ::__fmul_rn(x, y);
}
KILN_DEVICE double product(double x, double y) {
  return ::__dmul_rn(x, y);
}
KILN_DEVICE float sum(float x, float y) {
  return ::__fadd_rn(x, y);
}
KILN_DEVICE double sum(double x, double y) {
  return ::__dadd_rn(x, y);
}

/// The square root of a number in [2^-100, 2^100]. CUDA's own has these five instructions and a branch around them for
/// the numbers outside.
KILN_DEVICE float square_root(float x) {
  float inverse;
  asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(x));
  const float root = product(x, inverse);
  return scalar::fma(scalar::fma(-root, root, x), product(inverse, 0.5f), root);
}
KILN_DEVICE double square_root(double x) {
  return ::__dsqrt_rn(x);
}

}  // namespace kiln::tl::exact
