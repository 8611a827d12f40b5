#pragma once

#include <vector>

#include "ops/op_spec.hpp"

namespace kiln::rope {

/// One, for all calls of rope_append.
std::vector<Variant> append_variants();

}  // namespace kiln::rope
