#pragma once

#include <vector>

#include "ops/op_spec.hpp"

namespace kiln::attention {

std::vector<Variant> mla_variants();

}  // namespace kiln::attention
