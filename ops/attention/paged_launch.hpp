#pragma once

#include <vector>

#include "ops/op_spec.hpp"

namespace kiln::attention {

/// One for heads of up to 64, 128 and 256 numbers each, of 16-bit types and of f32.
std::vector<Variant> paged_variants();

}  // namespace kiln::attention
