#pragma once

#include "compiler/tl/cpu/scalar_math.hpp"

namespace kiln::tl::exact {

// Operations rounded once each, as IEEE 754 defines them: the CPU compiler fuses nothing by itself.

template <typename T>
KILN_DEVICE T product(T x, T y) {
  return x * y;
}
template <typename T>
KILN_DEVICE T sum(T x, T y) {
  return x + y;
}
template <typename T>
KILN_DEVICE T square_root(T x) {
  return scalar::sqrt_rn(x);
}

}  // namespace kiln::tl::exact
