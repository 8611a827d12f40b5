#include "ops/elementwise/call.hpp"

#include <algorithm>

#include "ops/common/traffic.hpp"

namespace kiln::elementwise {

ElementwiseCall elementwise_call(const OpRow& row, const OpCall& call) {
  ElementwiseCall result;
  result.row = &row;
  result.output = call.outputs[0];
  result.inputs = kernel_inputs(row, call.inputs);
  result.has_scalar_right = row.arity == 2 && call.inputs.size() == 1;
  result.walk = common::strided_walk(result.output, result.inputs);
  result.types = resolve_types(row, call.inputs, call.attributes);
  result.form = &form_of(row, call.attributes, result.types.compute);
  result.scalars = make_scalars(row, call.attributes, result.types);
  std::int64_t widest_bytes = result.bytes_per_element = itemsize_bytes(result.output.dtype);
  result.stored_bytes = common::stored_bytes(result.output);
  for (const TensorView& input : result.inputs) {
    result.stored_bytes += common::stored_bytes(input);
    widest_bytes = std::max(widest_bytes, itemsize_bytes(input.dtype));
    result.bytes_per_element += itemsize_bytes(input.dtype);
  }
  result.vector_width = 16 / widest_bytes;
  return result;
}

std::span<const TensorView> kernel_inputs(const OpRow& row, std::span<const TensorView> inputs) {
  return row.rule == DTypeRule::fill ? std::span<const TensorView>() : inputs;
}

}  // namespace kiln::elementwise
