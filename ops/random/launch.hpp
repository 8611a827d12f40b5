#pragma once

#include <vector>

#include "ops/op_spec.hpp"
#include "ops/random/distribution.hpp"

namespace kiln::random {

/// What op `kind` draws in this call.
Draw draw_of(Kind kind, const OpCall& call);

std::vector<Variant> random_variants(Kind kind, const KernelSource& source);

}  // namespace kiln::random
