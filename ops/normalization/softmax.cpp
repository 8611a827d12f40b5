#include "ops/normalization/softmax.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "core/errors.hpp"
#include "ops/dims.hpp"
#include "ops/grid.hpp"
#include "ops/normalization/examples.hpp"
#include "ops/normalization/reference.hpp"
#include "ops/normalization/row_tiling.hpp"

namespace kiln::normalization {
namespace {

constexpr const char* kSoftmax = "softmax";
constexpr const char* kLogSoftmax = "log_softmax";

std::string_view op_name(bool is_log) {
  return is_log ? kLogSoftmax : kSoftmax;
}

DType output_dtype(bool is_log, const TensorView& x, const Attributes& attributes) {
  const AttributeValue& wanted = *attributes.find("dtype");
  if (std::holds_alternative<std::monostate>(wanted)) return x.dtype;
  const auto* dtype = std::get_if<DType>(&wanted);
  if (dtype == nullptr || !is_floating(*dtype))
    throw_type_error(fmt::format("op '{}': attribute 'dtype' is {}, expected a floating dtype or None", op_name(is_log),
                                 to_string(wanted)));
  return *dtype;
}

std::vector<TensorMeta> infer(bool is_log, std::span<const TensorView> inputs, const Attributes& attributes) {
  axis_of(op_name(is_log), "dim", attributes.get_int("dim"), inputs[0].ndim());
  return {{output_dtype(is_log, inputs[0], attributes), inputs[0].shape}};
}

RowWalk walk_of(bool is_log, const OpCall& call) {
  const TensorView& x = call.inputs[0];
  const int axis = axis_of(op_name(is_log), "dim", call.attributes.get_int("dim"), x.ndim());
  std::vector<bool> is_reduced(static_cast<std::size_t>(x.ndim()));
  if (x.ndim() > 0) is_reduced[static_cast<std::size_t>(axis)] = true;
  std::vector<RowOperand> operands;
  for (const TensorView* view : {&call.outputs[0], &x})
    operands.push_back({view->strides, itemsize_bytes(view->dtype)});
  return make_walk(x.shape, is_reduced, std::move(operands));
}

std::int64_t widest_bytes(const OpCall& call) {
  return std::max(itemsize_bytes(call.outputs[0].dtype), itemsize_bytes(call.inputs[0].dtype));
}

/// Whether a row can be held as it is in memory, two values to a register.
bool is_packable(const OpCall& call) {
  return call.outputs[0].dtype == call.inputs[0].dtype && widest_bytes(call) == 2;
}
/// Packed where a thread holds as many values as this: few programs would fit on a processor otherwise.
constexpr std::int64_t kLeastPacked = 64;

/// One kernel on the rows of a call: template arguments the dtypes, axis, dense, then as given.
KernelLaunch make_launch(const std::string& kernel, const std::vector<TemplateArgument>& dtypes, const OpCall& call,
                         const RowWalk& walk, const RowTiling& tiling, std::int64_t programs,
                         const std::vector<TemplateArgument>& more) {
  KernelLaunch launch;
  launch.kernel = "kiln::ops::" + kernel;
  launch.template_arguments = dtypes;
  launch.template_arguments.emplace_back(std::int64_t{walk.axis});
  launch.template_arguments.emplace_back(walk.is_dense);
  launch.template_arguments.insert(launch.template_arguments.end(), more.begin(), more.end());
  launch.geometry = {{programs, 1, 1}, tiling.num_warps};
  launch.vector_width = vector_width(walk, tiling, widest_bytes(call));
  return launch;
}

LaunchPlan plan(bool is_log, const OpCall& call, const Config& config, const Target& target) {
  constexpr int kOut = 0, kIn = 1;
  const RowWalk walk = walk_of(is_log, call);
  const RowTiling tiling = tiling_of(config);
  const auto iteration = row_iteration<ops::kSoftmaxOperands>(walk, tiling.block_kept(walk));
  const std::int64_t programs = tiling.programs(walk), shares = programs * tiling.split;
  const std::int64_t tiles_of_a_row = tiling.tiles_of_a_row(walk);
  const bool is_cuda = target.type == DeviceType::cuda;
  const bool is_one_pass = is_cuda && tiles_of_a_row > 0;
  check_grid(op_name(is_log), is_one_pass ? programs : shares, target);
  const std::vector<TemplateArgument> dtypes = {call.outputs[0].dtype, call.inputs[0].dtype};

  LaunchPlan plan;
  const auto add_in_one = [&](const std::string& kernel, const std::vector<TemplateArgument>& kernel_dtypes,
                              const std::vector<TemplateArgument>& more) {
    KernelLaunch& launch =
        plan.launches.emplace_back(make_launch(kernel, kernel_dtypes, call, walk, tiling, programs, more));
    launch.arguments.add_tensor(kOut);
    launch.arguments.add_tensor(kIn);
    launch.arguments.add_value(iteration);
  };
  if (is_one_pass) {
    const std::int64_t held = tiling.block_m * tiling.block_n * tiles_of_a_row / (32 * tiling.num_warps);
    const bool is_packed = held >= kLeastPacked && is_packable(call);
    add_in_one(is_packed ? "softmax_packed_kernel" : "softmax_one_pass_kernel",
               is_packed ? std::vector<TemplateArgument>{call.inputs[0].dtype} : dtypes,
               {is_log, tiling.block_m, tiling.block_n, tiles_of_a_row});
  } else if (tiling.split == 1) {
    if (is_cuda)
      add_in_one("softmax_online_kernel", dtypes, {is_log, tiling.block_m, tiling.block_n, tiling.tiles});
    else
      add_in_one("softmax_three_pass_kernel", dtypes, {is_log, tiling.block_m, tiling.block_n});
  } else {
    const std::int64_t step = tiling.tiles * tiling.block_reduced(walk);
    const std::int64_t steps = (walk.reduced[0].extent + step - 1) / step;
    const std::int64_t chunk_size = (steps + tiling.split - 1) / tiling.split * step;
    const std::int64_t statistics = shares * tiling.block_kept(walk);
    plan.workspace_bytes.assign(2, statistics * itemsize_bytes(compute_dtype(call.outputs[0].dtype)));
    KernelLaunch& partial =
        plan.launches.emplace_back(make_launch("softmax_partial_kernel", dtypes, call, walk, tiling, shares,
                                               {tiling.block_m, tiling.block_n, tiling.tiles, tiling.split}));
    partial.arguments.add_workspace(0);
    partial.arguments.add_workspace(1);
    partial.arguments.add_tensor(kIn);
    partial.arguments.add_value(iteration);
    partial.arguments.add_value(static_cast<long long>(chunk_size));
    KernelLaunch& combine =
        plan.launches.emplace_back(make_launch("softmax_combine_kernel", dtypes, call, walk, tiling, shares,
                                               {is_log, tiling.block_m, tiling.block_n, tiling.tiles, tiling.split}));
    combine.arguments.add_tensor(kOut);
    combine.arguments.add_tensor(kIn);
    combine.arguments.add_workspace(0);
    combine.arguments.add_workspace(1);
    combine.arguments.add_value(iteration);
    combine.arguments.add_value(static_cast<long long>(chunk_size));
  }
  return plan;
}

Variant make_variant(bool is_log, int axis, const KernelSource& source) {
  Variant variant;
  variant.name = axis == 1 ? "rows" : "columns";
  variant.doc = axis == 1 ? "tiles run along the normalized dimension"
                          : "another dimension is the contiguous one: tiles run across, and are reduced downwards";
  variant.source = source;
  variant.kernel = "kiln::ops::softmax_one_pass_kernel";  // the plan may name another
  variant.serves = [is_log, axis](const OpCall& call, const Target&) { return walk_of(is_log, call).axis == axis; };
  variant.space = [axis](const Target& target) { return row_space(axis, target, true); };
  variant.default_config = [is_log](const OpCall& call, const Target& target) {
    return default_tiling(walk_of(is_log, call),
                          {.element_bytes = widest_bytes(call),
                           .is_double = call.outputs[0].dtype == DType::f64,
                           .can_split = true,
                           .can_pack = is_packable(call)},
                          target);
  };
  variant.plan = [is_log](const OpCall& call, const Config& config, const Target& target) {
    return plan(is_log, call, config, target);
  };
  return variant;
}

OpSpec make_spec(bool is_log, const KernelSource& source) {
  OpSpec spec;
  spec.name = op_name(is_log);
  spec.doc =
      is_log
          ? "log(exp(x) / sum(exp(x))) along dim, without overflow; a row that is all -inf or holds +inf or NaN gives "
            "NaN"
          : "exp(x) / sum(exp(x)) along dim, without overflow; a row that is all -inf or holds +inf or NaN gives NaN";
  spec.inputs = {{"x", ""}};
  spec.outputs = {{"out", ""}};
  spec.attributes = {{"dim", std::int64_t{-1}, false, "the dimension whose elements are normalized"},
                     {"dtype", {}, false, "x is cast to this floating dtype first, and so is the result; None: x's"}};
  spec.dtypes = {DType::f64, DType::f32, DType::f16, DType::bf16, DType::fp8e4m3, DType::fp8e5m2};
  spec.aliasing = Aliasing::elementwise;
  spec.infer = [is_log](std::span<const TensorView> inputs, const Attributes& attributes) {
    return infer(is_log, inputs, attributes);
  };
  spec.variants = {make_variant(is_log, 1, source), make_variant(is_log, 0, source)};
  spec.cost = [](const OpCall& call) {
    const auto numel = static_cast<double>(call.outputs[0].numel());
    // Subtract, compare, exponential, add, scale.
    return Cost{5 * numel, numel * static_cast<double>(itemsize_bytes(call.outputs[0].dtype) +
                                                       itemsize_bytes(call.inputs[0].dtype))};
  };
  spec.reference = [is_log](const OpCall& call) {
    const int axis = axis_of(op_name(is_log), "dim", call.attributes.get_int("dim"), call.inputs[0].ndim());
    softmax_reference(call, axis, is_log);
  };
  spec.examples = softmax_examples();
  spec.random_example = random_softmax_example;
  spec.tolerance = is_log ? log_softmax_tolerance : softmax_tolerance;
  return spec;
}

}  // namespace

std::vector<OpSpec> softmax_specs(const KernelSource& source) {
  return {make_spec(false, source), make_spec(true, source)};
}

}  // namespace kiln::normalization
