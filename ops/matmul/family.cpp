#include "ops/matmul/family.hpp"

#include <utility>

#include "ops/common/traffic.hpp"
#include "ops/matmul/launch.hpp"
#include "ops/matmul/reference.hpp"

namespace kiln::matmul {
namespace {

Cost cost(const OpCall& call) {
  Cost cost;
  cost.flops = 2.0 * static_cast<double>(call.outputs[0].numel()) * static_cast<double>(call.inputs[0].shape.back());
  cost.bytes = common::sum_of_tensors(call, common::stored_bytes);
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
