#pragma once

#include "compiler/tl/target.hpp"

namespace kiln::tl::scalar {

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
