#include "ops/normalization/norm.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <utility>

#include "ops/grid.hpp"
#include "ops/normalization/examples.hpp"
#include "ops/normalization/norm_call.hpp"
#include "ops/normalization/reference.hpp"
#include "ops/normalization/row_tiling.hpp"

namespace kiln::normalization {
namespace {

std::string_view op_name(bool is_layer) {
  return is_layer ? "layer_norm" : "rms_norm";
}

std::vector<TensorMeta> infer(bool is_layer, std::span<const TensorView> inputs, const Attributes& attributes) {
  const NormCall norm = norm_call(is_layer, inputs, attributes);
  std::vector<TensorMeta> outputs = {{inputs[0].dtype, inputs[0].shape}};
  if (norm.residual != nullptr) outputs.push_back(outputs[0]);
  return outputs;
}

/// Where the tensors of a call are among its arguments, by the kernel's numbers: outputs first; -1: not given.
std::array<int, ops::kNormOperands> tensor_indices(const OpCall& call, const NormCall& norm) {
  std::array<int, ops::kNormOperands> indices;
  indices.fill(-1);
  const int first_input = static_cast<int>(call.outputs.size());
  indices[ops::kNormOut] = 0;
  if (norm.residual != nullptr) {
    indices[ops::kNormResidualOut] = 1;
    indices[ops::kNormResidual] = first_input + 2;
  }
  indices[ops::kNormIn] = first_input;
  if (norm.weight != nullptr) indices[ops::kNormWeight] = first_input + 1;
  if (norm.bias != nullptr) indices[ops::kNormBias] = first_input + 2;
  return indices;
}

RowWalk walk_of(const OpCall& call, const NormCall& norm) {
  const TensorView& x = call.inputs[0];
  std::vector<bool> is_reduced;
  for (int axis = 0; axis < x.ndim(); ++axis) is_reduced.push_back(norm.is_normalized(axis));
  const std::array<int, ops::kNormOperands> indices = tensor_indices(call, norm);
  std::vector<RowOperand> operands;
  for (int o = 0; o < ops::kNormOperands; ++o) {
    const int index = indices[static_cast<std::size_t>(o)];
    RowOperand& operand = operands.emplace_back();
    if (index < 0) continue;
    const auto outputs = static_cast<int>(call.outputs.size());
    const TensorView& view = index < outputs ? call.outputs[static_cast<std::size_t>(index)]
                                             : call.inputs[static_cast<std::size_t>(index - outputs)];
    operand.itemsize_bytes = itemsize_bytes(view.dtype);
    operand.is_shared = o == ops::kNormWeight || o == ops::kNormBias;
    operand.strides = x.strides;  // for its length
    for (int axis = 0; axis < x.ndim(); ++axis)
      operand.strides[axis] = !operand.is_shared         ? view.strides[axis]
                              : norm.is_normalized(axis) ? view.strides[axis - norm.first_axis]
                                                         : 0;
  }
  return make_walk(x.shape, is_reduced, std::move(operands));
}

LaunchPlan plan(bool is_layer, const OpCall& call, const Config& config, const Target& target) {
  const NormCall norm = norm_call(is_layer, call.inputs, call.attributes);
  const TensorView& x = call.inputs[0];
  const RowWalk walk = walk_of(call, norm);
  const RowTiling tiling = tiling_of(config);
  const std::int64_t programs = tiling.programs(walk);
  check_grid(op_name(is_layer), programs, target);
  const std::int64_t tiles_of_a_row = target.type == DeviceType::cuda ? tiling.tiles_of_a_row(walk) : 0;

  LaunchPlan plan;
  KernelLaunch& launch = plan.launches.emplace_back();
  launch.kernel = tiles_of_a_row > 0 ? "kiln::ops::norm_one_pass_kernel" : "kiln::ops::norm_looped_kernel";
  const std::string form = fmt::format("kiln::ops::NormForm<{}, {}, {}, {}>", is_layer, norm.residual != nullptr,
                                       norm.weight != nullptr, norm.bias != nullptr);
  launch.template_arguments = {TypeName{form},
                               x.dtype,
                               norm.weight != nullptr ? norm.weight->dtype : x.dtype,
                               std::int64_t{walk.axis},
                               walk.is_dense,
                               tiling.block_m,
                               tiling.block_n,
                               tiles_of_a_row > 0 ? tiles_of_a_row : tiling.tiles};
  if (tiles_of_a_row == 0) launch.template_arguments.emplace_back(walk.segments() > 1);
  launch.geometry = {{programs, 1, 1}, tiling.num_warps};
  launch.vector_width = vector_width(walk, tiling, itemsize_bytes(x.dtype));
  for (const int index : tensor_indices(call, norm)) {
    if (index >= 0)
      launch.arguments.add_tensor(index);
    else
      launch.arguments.add_value(std::uintptr_t{0});  // a null pointer
  }
  launch.arguments.add_value(row_iteration<ops::kNormOperands>(walk, tiling.block_kept(walk)));
  launch.arguments.add_value(1.0 / static_cast<double>(walk.reduced[0].extent * walk.segments()));
  launch.arguments.add_value(norm.eps);
  return plan;
}

Variant make_variant(bool is_layer, int axis, const KernelSource& source) {
  Variant variant;
  variant.name = axis == 1 ? "rows" : "columns";
  variant.doc = axis == 1 ? "tiles run along a normalized dimension"
                          : "another dimension is the contiguous one: tiles run across, and are reduced downwards";
  variant.source = source;
  variant.kernel = "kiln::ops::norm_one_pass_kernel";  // the plan may name another
  variant.serves = [is_layer, axis](const OpCall& call, const Target&) {
    return walk_of(call, norm_call(is_layer, call.inputs, call.attributes)).axis == axis;
  };
  variant.space = [axis](const Target& target) { return row_space(axis, target, false); };
  variant.default_config = [is_layer](const OpCall& call, const Target& target) {
    const RowWalk walk = walk_of(call, norm_call(is_layer, call.inputs, call.attributes));
    const DType dtype = call.inputs[0].dtype;
    const std::int64_t element_bytes = itemsize_bytes(dtype);
    // 64 bytes of loads in flight for a thread: bf16 rows in 8 warps read an eighth slower than in 4.
    return default_tiling(
        walk,
        {.element_bytes = element_bytes, .is_double = dtype == DType::f64, .per_thread = element_bytes <= 2 ? 32 : 16},
        target);
  };
  variant.plan = [is_layer](const OpCall& call, const Config& config, const Target& target) {
    return plan(is_layer, call, config, target);
  };
  return variant;
}

Cost cost(const OpCall& call) {
  const auto numel = static_cast<double>(call.outputs[0].numel());
  Cost cost{7 * numel, 0};  // shift, center, square, sum twice, scale, weight
  for (const auto tensors : {call.inputs, call.outputs})
    for (const TensorView& tensor : tensors)
      cost.bytes += static_cast<double>(tensor.numel() * itemsize_bytes(tensor.dtype));
  return cost;
}

OpSpec make_spec(bool is_layer, const KernelSource& source) {
  OpSpec spec;
  spec.name = op_name(is_layer);
  spec.doc =
      is_layer
          ? "(x - mean) / sqrt(var + eps) * weight + bias over the last dimensions; var divides by n; a row whose "
            "variance overflows gives NaN"
          : "x / sqrt(mean(x^2) + eps) * weight over the last dimensions; with residual: of x + residual, rounded to "
            "x's dtype and returned as residual_out";
  spec.inputs = {{"x", ""}, {"weight", "of the normalized shape, in x's dtype or f32", true}};
  spec.outputs = {{"out", ""}};
  if (is_layer) {
    spec.inputs.push_back({"bias", "as weight", true});
  } else {
    spec.inputs.push_back({"residual", "added to x first; of x's shape and dtype", true});
    spec.outputs.push_back({"residual_out", "x + residual, where residual is given"});
  }
  spec.attributes = {
      {"normalized_shape", {}, false, "the last extents of x, which are normalized over; None: the last one"},
      {"eps", is_layer ? AttributeValue{1e-5} : AttributeValue{}, false,
       is_layer ? "added to the variance" : "added to the mean square; None: the machine epsilon of x's dtype"}};
  spec.dtypes = {DType::f64, DType::f32, DType::f16, DType::bf16, DType::fp8e4m3, DType::fp8e5m2};
  spec.aliasing = Aliasing::elementwise;
  spec.infer = [is_layer](std::span<const TensorView> inputs, const Attributes& attributes) {
    return infer(is_layer, inputs, attributes);
  };
  spec.variants = {make_variant(is_layer, 1, source), make_variant(is_layer, 0, source)};
  spec.cost = cost;
  spec.reference = [is_layer](const OpCall& call) {
    norm_reference(call, norm_call(is_layer, call.inputs, call.attributes), is_layer);
  };
  spec.examples = norm_examples(is_layer);
  spec.random_example = [is_layer](std::mt19937_64& random) { return random_norm_example(is_layer, random); };
  spec.tolerance = norm_tolerance;
  return spec;
}

}  // namespace

std::vector<OpSpec> norm_specs(const KernelSource& source) {
  return {make_spec(true, source), make_spec(false, source)};
}

}  // namespace kiln::normalization
