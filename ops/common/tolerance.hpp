#pragma once

#include "ops/op_spec.hpp"

namespace kiln {

/// What `computed` becomes once results are rounded to `out`: two that lie a hair apart may round to neighbours in a
/// narrow format, so one unit in the last place, or one subnormal step, is added.
Tolerance rounded_to(DType out, Tolerance computed);

}  // namespace kiln
