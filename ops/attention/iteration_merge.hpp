#pragma once

// Included by kernels and by the host that fills this struct in.

#include "ops/common/iteration.hpp"

namespace kiln::ops {

/// A place, which is one row of one head, for each program along axis 0, columns along axis 1. Strides in elements.
struct MergeIteration {
  /// From place to place of out, outs, lse and lses; its lines are rows.
  LineIteration places;
  long long parts;
  long long outs_part, lses_part;  ///< from one part to the next
};

}  // namespace kiln::ops
