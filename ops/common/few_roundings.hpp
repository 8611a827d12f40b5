#pragma once

#include "ops/common/tolerance.hpp"

namespace kiln {

/// The tolerance of what is computed by a few operations in f32, or in f64 where that is the dtype; exact for integers.
inline Tolerance few_roundings(DType dtype) {
  if (!is_floating(dtype)) return {};
  return rounded_to(dtype, dtype == DType::f64 ? Tolerance{1e-12, 1e-12} : Tolerance{1e-5, 1e-6});
}

}  // namespace kiln
