#include "ops/matmul/family.hpp"

#include <utility>

#include "ops/matmul/launch.hpp"
#include "ops/matmul/reference.hpp"

namespace kiln::matmul {
namespace {

/// Elements of a view that are stored: a broadcast dimension counts once.
double stored(const TensorView& view) {
  double elements = 1;
  for (int axis = 0; axis < view.ndim(); ++axis)
    if (view.strides[axis] != 0 || view.shape[axis] == 0) elements *= static_cast<double>(view.shape[axis]);
  return elements;
}

Cost cost(const OpCall& call) {
  Cost cost;
  cost.flops = 2.0 * static_cast<double>(call.outputs[0].numel()) * static_cast<double>(call.inputs[0].shape.back());
  for (const auto tensors : {call.inputs, call.outputs})
    for (const TensorView& tensor : tensors)
      cost.bytes += stored(tensor) * static_cast<double>(itemsize_bytes(tensor.dtype));
  return cost;
}

}  // namespace

OpSpec make_spec(const std::string& name, std::vector<InputSpec> inputs, const Resolve& resolve) {
  OpSpec spec;
  spec.name = name;
  spec.inputs = std::move(inputs);
  spec.outputs = {{"out", ""}};
  spec.aliasing = Aliasing::none;
  spec.infer = [resolve](std::span<const TensorView> views, const Attributes& attributes) {
    const Problem problem = resolve(views, attributes);
    return std::vector<TensorMeta>{{problem.out, problem.out_shape}};
  };
  spec.variants = matmul_variants(resolve);
  spec.cost = cost;
  spec.reference = [resolve](const OpCall& call) { run_reference(resolve(call.inputs, call.attributes), call); };
  spec.tolerance = tolerance;
  spec.input_ranges.assign(spec.inputs.size(), {-1, 1});
  return spec;
}

}  // namespace kiln::matmul
