#pragma once

#include "ops/op_spec.hpp"
#include "ops/random/distribution.hpp"

namespace kiln::random {

/// Element by element, on CPU memory of any strides.
void run_reference(Kind kind, const OpCall& call);

}  // namespace kiln::random
