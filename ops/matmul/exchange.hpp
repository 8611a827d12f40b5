#pragma once

#include "ops/matmul/call.hpp"

namespace kiln::matmul {

/// The same product as out^T = b^T @ a^T.
MatmulCall exchanged(MatmulCall call);

/// The call, or the exchanged one where that is read better by the CPU's kernels, which broadcast a's elements and read
/// rows of b: where neither has its rows contiguous, or a has not and b is a few columns. Its result is then written
/// across, so there must be work enough beside the writing.
MatmulCall well_read(const MatmulCall& call);

}  // namespace kiln::matmul
