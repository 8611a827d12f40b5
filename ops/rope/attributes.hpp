#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "ops/op_spec.hpp"

namespace kiln::rope {

// What ops that turn say alike of how far.

/// cos and sin.
std::vector<InputSpec> table_inputs();
/// Entries count rows of cos, or places where the call has none.
InputSpec positions_input(std::string doc, std::function<std::int64_t(const OpCall&)> num_positions);
/// All but `inverse`.
std::vector<AttributeSpec> rotation_attributes();

}  // namespace kiln::rope
