#pragma once

#include <vector>

#include "ops/op_spec.hpp"

namespace kiln::attention {

std::vector<OpSpec> attention_specs();

}  // namespace kiln::attention
