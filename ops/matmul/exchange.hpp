#pragma once

#include "ops/matmul/call.hpp"

namespace kiln::matmul {

/// The same product as out^T = b^T @ a^T.
MatmulCall exchanged(MatmulCall call);

/// Whether b's columns, which do not lie along k, are few enough that each program copies them for kernels along k
/// (1025x257 times 257x2 of f32, one thread of a Zen 4: 46 us by vectors along n, of which there are two; 19 so).
bool copies_columns(const MatmulCall& call);

/// The call, or the exchanged one where that is read better by the CPU's kernels, which broadcast a's elements and read
/// rows of b: where neither has its rows contiguous, or a has not and b is a few columns. Its result is then written
/// across, so there must be work enough beside the writing. Also where copies_columns
/// holds of that one.
MatmulCall well_read(const MatmulCall& call);

}  // namespace kiln::matmul
