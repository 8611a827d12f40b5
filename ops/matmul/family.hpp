#pragma once

#include <string>
#include <vector>

#include "ops/matmul/call.hpp"

namespace kiln::matmul {

/// A spec with everything that follows from what the op computes: shapes, variants, cost, reference, tolerance. Doc,
/// attributes, dtypes and examples are the op's own.
OpSpec make_spec(const std::string& name, std::vector<InputSpec> inputs, const Resolve& resolve);

}  // namespace kiln::matmul
