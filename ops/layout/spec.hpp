#pragma once

#include <vector>

#include "ops/op_spec.hpp"

namespace kiln::layout {

/// transpose, permute, copy and concat.
std::vector<OpSpec> layout_specs();

}  // namespace kiln::layout
