#pragma once

#include "ops/op_spec.hpp"

namespace kiln::common {

// What OpSpec::cost counts.

/// Bytes that a view holds in memory: a broadcast dimension counts once.
double stored_bytes(const TensorView& view);

/// Every tensor of a call read or written once, and so many operations for each element of the first output.
Cost each_tensor_once(const OpCall& call, double flops_per_element);

}  // namespace kiln::common
