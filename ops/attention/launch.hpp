#pragma once

#include <vector>

#include "ops/attention/call.hpp"
#include "ops/common/call_parser.hpp"
#include "ops/op_spec.hpp"

namespace kiln::attention {

/// One for heads of up to 64, 128 and 256 numbers each, of 16-bit types and of f32: what fits a program differs.
std::vector<Variant> attention_variants();

}  // namespace kiln::attention
