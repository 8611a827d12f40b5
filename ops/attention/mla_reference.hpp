#pragma once

#include "ops/op_spec.hpp"

namespace kiln::attention {

/// In double, score by score.
void mla_reference(const OpCall& call);

}  // namespace kiln::attention
