#pragma once

#include <vector>

#include "ops/op_spec.hpp"

namespace kiln::rope {

std::vector<OpSpec> rope_specs();

}  // namespace kiln::rope
