#include "ops/normalization/norm.hpp"

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <string>
#include <utility>

#include "ops/common/call_parser.hpp"
#include "ops/common/grid.hpp"
#include "ops/common/kernel_parameters.hpp"
#include "ops/common/traffic.hpp"
#include "ops/normalization/examples.hpp"
#include "ops/normalization/norm_call.hpp"
#include "ops/normalization/reference.hpp"
#include "ops/normalization/row_tiling.hpp"

namespace kiln::normalization {
namespace {

std::string_view op_name(bool is_layer) {
  return is_layer ? "layer_norm" : "rms_norm";
}

std::vector<TensorMeta> infer(bool is_layer, const CallInputs& inputs, const Attributes& attributes) {
  const NormCall norm = norm_call(is_layer, inputs, attributes);
  std::vector<TensorMeta> outputs = {{inputs[0].dtype, inputs[0].shape}};
  if (norm.residual != nullptr) outputs.push_back(outputs[0]);
  return outputs;
}

/// A call as the kernels see it.
struct NormWalk {
  bool is_layer = false;
  NormCall norm;
  DType dtype = DType::f32;      ///< of all but the parameters
  DType parameter = DType::f32;  ///< of weight and bias; x's without them
  /// Where the kernels' operands are among the call's tensors, outputs first; -1: not given.
  std::array<int, ops::kNormOperands> tensors{};
  RowWalk walk;
};

NormWalk norm_walk(bool is_layer, const OpCall& call) {
  NormWalk result;
  result.is_layer = is_layer;
  result.norm = norm_call(is_layer, call.inputs, call.attributes);
  const NormCall& norm = result.norm;
  const TensorView& x = call.inputs[0];
  result.dtype = x.dtype;
  result.parameter = norm.weight != nullptr ? norm.weight->dtype : norm.bias != nullptr ? norm.bias->dtype : x.dtype;
  const int outputs = static_cast<int>(call.outputs.size());
  result.tensors.fill(-1);
  std::vector<RowOperand> operands(ops::kNormOperands);
  const auto place = [&](int operand, int tensor, const TensorView& view, bool is_shared) {
    result.tensors[static_cast<std::size_t>(operand)] = tensor;
    RowOperand& placed = operands[static_cast<std::size_t>(operand)];
    placed = {x.strides, itemsize_bytes(view.dtype), is_shared};  // x's for their number
    for (int axis = 0; axis < x.ndim(); ++axis)
      placed.strides[axis] = !is_shared                 ? view.strides[axis]
                             : norm.is_normalized(axis) ? view.strides[axis - norm.first_axis]
                                                        : 0;
  };
  place(ops::kNormOut, 0, call.outputs[0], false);
  place(ops::kNormIn, outputs, x, false);
  if (norm.residual != nullptr) {
    place(ops::kNormResidualOut, 1, call.outputs[1], false);
    place(ops::kNormResidual, outputs + 2, *norm.residual, false);
  }
  if (norm.weight != nullptr) place(ops::kNormWeight, outputs + 1, *norm.weight, true);
  if (norm.bias != nullptr) place(ops::kNormBias, outputs + 2, *norm.bias, true);
  std::vector<bool> is_reduced;
  for (int axis = 0; axis < x.ndim(); ++axis) is_reduced.push_back(norm.is_normalized(axis));
  result.walk = make_walk(x.shape, is_reduced, std::move(operands));
  return result;
}

LaunchPlan plan_of(const NormWalk& call, const Config& config, const Target& target) {
  const RowWalk& walk = call.walk;
  const NormCall& norm = call.norm;
  const RowTiling tiling = tiling_of(config);
  const std::int64_t programs = tiling.programs(walk);
  check_grid(op_name(call.is_layer), programs, target);
  const std::int64_t tiles_of_a_row = is_cuda(target) ? tiling.tiles_of_a_row(walk) : 0;

  LaunchPlan plan;
  KernelLaunch& launch = plan.launches.emplace_back();
  launch.kernel = tiles_of_a_row > 0 ? "kiln::ops::norm_one_pass_kernel" : "kiln::ops::norm_looped_kernel";
  const std::string form = fmt::format("kiln::ops::NormForm<{}, {}, {}, {}>", call.is_layer, norm.residual != nullptr,
                                       norm.weight != nullptr, norm.bias != nullptr);
  launch.template_arguments = {TypeName{form},
                               call.dtype,
                               call.parameter,
                               std::int64_t{walk.axis},
                               std::int64_t{tiling.columns(walk, target)},
                               tiling.block_m,
                               tiling.block_n,
                               tiles_of_a_row > 0 ? tiles_of_a_row : tiling.tiles};
  if (tiles_of_a_row == 0) launch.template_arguments.emplace_back(walk.segments() > 1);
  launch.geometry = {{programs, 1, 1}, tiling.num_warps};
  launch.vector_width = vector_width(walk, tiling, itemsize_bytes(call.dtype));
  common::KernelParameters(launch)
      .written(call.tensors[ops::kNormOut], call.dtype)
      .written(call.tensors[ops::kNormResidualOut], call.dtype)
      .read(call.tensors[ops::kNormIn], call.dtype)
      .read(call.tensors[ops::kNormResidual], call.dtype)
      .read(call.tensors[ops::kNormWeight], call.parameter)
      .read(call.tensors[ops::kNormBias], call.parameter)
      .value(row_iteration<ops::kNormOperands>(walk, tiling.block_kept(walk)))
      .value(1.0 / static_cast<double>(walk.reduced[0].extent * walk.segments()))
      .value(norm.eps);
  return plan;
}

Config default_config(const NormWalk& call, const Target& target) {
  const std::int64_t element_bytes = itemsize_bytes(call.dtype);
  // 64 bytes of loads in flight for a thread: bf16 rows in 8 warps read an eighth slower than in 4.
  return default_tiling(call.walk,
                        {.element_bytes = element_bytes,
                         .is_double = call.dtype == DType::f64,
                         .per_thread = element_bytes <= 2 ? 32 : 16,
                         .has_shared = call.norm.weight != nullptr || call.norm.bias != nullptr},
                        target);
}

Variant make_variant(const common::CallParser<NormWalk>& parse, int axis, const KernelSource& source) {
  return common::variant_of<NormWalk>(
      parse, {.name = axis == 1 ? "rows" : "columns",
              .doc = axis == 1 ? "tiles run along a normalized dimension"
                               : "another dimension is the contiguous one: tiles run across, and are reduced downwards",
              .source = source,
              .kernel = "kiln::ops::norm_one_pass_kernel",  // the plan may name another
              .serves = [axis](const NormWalk& call, const Target&) { return call.walk.axis == axis; },
              .space = [axis](const Target& target) { return row_space(axis, target, false); },
              .default_config = default_config,
              .plan = plan_of});
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
  spec.infer = [is_layer](const CallInputs& inputs, const Attributes& attributes) {
    return infer(is_layer, inputs, attributes);
  };
  const common::CallParser<NormWalk> parse([is_layer](const OpCall& call) { return norm_walk(is_layer, call); });
  spec.variants = {make_variant(parse, 1, source), make_variant(parse, 0, source)};
  // Shift, center, square, sum twice, scale, weight.
  spec.cost = [](const OpCall& call) { return common::each_tensor_once(call, 7); };
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
