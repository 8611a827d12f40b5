#pragma once

#include "ops/op_spec.hpp"

namespace kiln::attention {

/// attention's reference of each sequence.
void varlen_reference(const OpCall& call);

}  // namespace kiln::attention
