#pragma once

#include "ops/op_spec.hpp"

namespace kiln::attention {

/// In double, score by score.
void attention_reference(const OpCall& call);

/// Of an output dtype, for inputs of up to 4: that of a computation whose products are of the inputs' dtype.
Tolerance attention_tolerance(DType out);

}  // namespace kiln::attention
