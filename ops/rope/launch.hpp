#pragma once

#include <vector>

#include "ops/op_spec.hpp"

namespace kiln::rope {

/// One, for all calls.
std::vector<Variant> rope_variants();

}  // namespace kiln::rope
