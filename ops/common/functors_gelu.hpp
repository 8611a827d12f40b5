#pragma once

#include "compiler/tl/math.hpp"

namespace kiln::ops {

#if defined(KILN_TARGET_CUDA)
/// x * Phi(x) for results of 16 bits or fewer on a GPU, where erf's instructions are the limit: half as many, and
/// nearer to the result where x is negative, since nothing cancels. For u >= 0, Phi(-u) = exp(-u^2 / 2) (a1 t + ... +
/// a5 t^5) with t = 1 / (1 + p u), as in Abramowitz and Stegun, 26.2.17; the numbers here are fitted for the least
/// relative error up to u = 6, 9e-6: a fiftieth of an f16's last place. (With a term less it was a fifth, which an f16
/// that lies between two others shows.)
KILN_DEVICE float gelu_narrow(float x) {
  const float u = tl::scalar::fabs(x);
  const float t = tl::scalar::reciprocal_approximate(tl::scalar::fma(0.358f, u, 1.0f));
  const float density = tl::scalar::exp2_approximate(x * -0.72134752044448170368f * x);
  float sum = tl::scalar::fma(t, -0.09733745455741882f, 0.25453871488571167f);
  sum = tl::scalar::fma(t, sum, 0.037750355899333954f);
  sum = tl::scalar::fma(t, sum, 0.16428595781326294f);
  sum = tl::scalar::fma(t, sum, 0.1407589614391327f);
  const float tail = density * (t * sum);
  return x * (x < 0 ? tail : 1 - tail);
}
#endif

}  // namespace kiln::ops
