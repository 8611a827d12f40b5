#pragma once

#include "ops/common/iteration.hpp"

// Included by kernels and by the host that fills the struct in, so it uses only built-in types.

namespace kiln::ops {

/// Scalar attributes, in both forms; a functor reads the one its compute type calls for.
struct Scalars {
  double f[4];
  long long i[4];
};

}  // namespace kiln::ops
