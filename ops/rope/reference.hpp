#pragma once

#include "ops/op_spec.hpp"
#include "ops/rope/problem.hpp"

namespace kiln::rope {

/// Pair by pair; angles in long double, since a position of 2^31 leaves a double 22 bits for what is beyond whole
/// turns.
void rotate(const RopeProblem& problem, const TensorView& x, const TensorView& out);
/// A call of rope.
void rope_reference(const OpCall& call);
Tolerance rope_tolerance(DType out);

}  // namespace kiln::rope
