#pragma once

#include <vector>

#include "ops/op_spec.hpp"

namespace kiln::elementwise {

/// One OpSpec per row of the op table, in its order.
std::vector<OpSpec> elementwise_specs();

}  // namespace kiln::elementwise
