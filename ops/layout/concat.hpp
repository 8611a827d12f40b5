#pragma once

#include <vector>

#include "ops/op_spec.hpp"

namespace kiln::layout {

/// What joins tensors along a dimension.
std::vector<Variant> concat_variants(const KernelSource& source);

}  // namespace kiln::layout
