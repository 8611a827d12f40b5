#pragma once

#include "ops/op_spec.hpp"

namespace kiln::common {

// What OpSpec::cost counts.

/// Bytes that a view holds in memory: a broadcast dimension counts once.
double stored_bytes(const TensorView& view);
/// Bytes of all elements.
double whole_bytes(const TensorView& view);

/// What `bytes_of` says of each tensor of a call, added up.
template <typename BytesOf>
double sum_of_tensors(const OpCall& call, const BytesOf& bytes_of) {
  double sum = 0;
  for (std::size_t i = 0; i < call.inputs.size(); ++i)
    if (const TensorView* const input = call.inputs.find(i)) sum += bytes_of(*input);
  for (const TensorView& output : call.outputs) sum += bytes_of(output);
  return sum;
}

/// Every tensor of a call read or written once, and so many operations for each element of the first output.
Cost each_tensor_once(const OpCall& call, double flops_per_element);

}  // namespace kiln::common
