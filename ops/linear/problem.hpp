#pragma once

#include <span>

#include "ops/matmul/call.hpp"

namespace kiln::linear {

/// linear(x, weight[, bias]): x @ weight^T + bias, then the attribute `activation`. UsageError: value for shapes that
/// do not go together, an unknown activation and one that whole numbers have no use for; type for dtypes.
matmul::Problem resolve_linear(std::span<const TensorView> inputs, const Attributes& attributes);
/// The same with relu.
matmul::Problem resolve_linear_relu(std::span<const TensorView> inputs, const Attributes& attributes);

}  // namespace kiln::linear
