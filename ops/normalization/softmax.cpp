#include "ops/normalization/softmax.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "core/errors.hpp"
#include "ops/common/attribute_reader.hpp"
#include "ops/common/call_parser.hpp"
#include "ops/common/grid.hpp"
#include "ops/common/kernel_parameters.hpp"
#include "ops/common/traffic.hpp"
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
  constexpr std::string_view kExpected = "a floating dtype or None";
  const AttributeValue& wanted = *attributes.find("dtype");
  const DType dtype = dtype_of(op_name(is_log), "dtype", wanted, kExpected).value_or(x.dtype);
  if (!is_floating(dtype))
    throw_type_error(
        fmt::format("op '{}': attribute 'dtype' is {}, expected {}", op_name(is_log), to_string(wanted), kExpected));
  return dtype;
}

std::vector<TensorMeta> infer(bool is_log, std::span<const TensorView> inputs, const Attributes& attributes) {
  axis_of(op_name(is_log), "dim", attributes.get_int("dim"), inputs[0].ndim());
  return {{output_dtype(is_log, inputs[0], attributes), inputs[0].shape}};
}

int axis_of_call(bool is_log, const OpCall& call) {
  return axis_of(op_name(is_log), "dim", call.attributes.get_int("dim"), call.inputs[0].ndim());
}

/// A call, taken apart.
struct SoftmaxCall {
  bool is_log = false;
  DType out = DType::f32, in = DType::f32;
  RowWalk walk;

  std::int64_t widest_bytes() const { return std::max(itemsize_bytes(out), itemsize_bytes(in)); }
  /// Whether a row can be held as it is in memory, two values to a register.
  bool is_packable() const { return out == in && widest_bytes() == 2; }
};

SoftmaxCall softmax_call(bool is_log, const OpCall& call) {
  const TensorView &out = call.outputs[0], &x = call.inputs[0];
  const int axis = axis_of_call(is_log, call);
  std::vector<bool> is_reduced(static_cast<std::size_t>(x.ndim()));
  if (x.ndim() > 0) is_reduced[static_cast<std::size_t>(axis)] = true;
  std::vector<RowOperand> operands;
  for (const TensorView* view : {&out, &x}) operands.push_back({view->strides, itemsize_bytes(view->dtype)});
  return {is_log, out.dtype, x.dtype, make_walk(x.shape, is_reduced, std::move(operands))};
}

/// Packed where a thread holds as many values as this: few programs would fit on a processor otherwise.
constexpr std::int64_t kLeastPacked = 40;

/// One kernel on the rows of a call: template arguments the dtypes, axis, dense, then as given.
KernelLaunch make_launch(const std::string& kernel, const std::vector<TemplateArgument>& dtypes,
                         const SoftmaxCall& call, const RowTiling& tiling, std::int64_t programs,
                         const std::vector<TemplateArgument>& more, const Target& target) {
  KernelLaunch launch;
  launch.kernel = "kiln::ops::" + kernel;
  launch.template_arguments = dtypes;
  launch.template_arguments.emplace_back(std::int64_t{call.walk.axis});
  launch.template_arguments.emplace_back(std::int64_t{tiling.columns(call.walk, target)});
  launch.template_arguments.insert(launch.template_arguments.end(), more.begin(), more.end());
  launch.geometry = {{programs, 1, 1}, tiling.num_warps};
  launch.vector_width = vector_width(call.walk, tiling, call.widest_bytes());
  return launch;
}

LaunchPlan plan_of(const SoftmaxCall& call, const Config& config, const Target& target) {
  constexpr int kOut = 0, kIn = 1;
  const RowWalk& walk = call.walk;
  const RowTiling tiling = tiling_of(config);
  const auto iteration = row_iteration<ops::kSoftmaxOperands>(walk, tiling.block_kept(walk));
  const std::int64_t programs = tiling.programs(walk), shares = programs * tiling.split;
  const std::int64_t tiles_of_a_row = tiling.tiles_of_a_row(walk);
  const bool is_one_pass = is_cuda(target) && tiles_of_a_row > 0;
  check_grid(op_name(call.is_log), is_one_pass ? programs : shares, target);
  const std::vector<TemplateArgument> dtypes = {call.out, call.in};

  LaunchPlan plan;
  const auto add_in_one = [&](const std::string& kernel, const std::vector<TemplateArgument>& kernel_dtypes,
                              const std::vector<TemplateArgument>& more) {
    KernelLaunch& launch =
        plan.launches.emplace_back(make_launch(kernel, kernel_dtypes, call, tiling, programs, more, target));
    common::KernelParameters(launch).written(kOut, call.out).read(kIn, call.in).value(iteration);
  };
  if (is_one_pass) {
    const std::int64_t held = tiling.block_m * tiling.block_n * tiles_of_a_row / (32 * tiling.num_warps);
    const bool is_packed = held >= kLeastPacked && call.is_packable();
    add_in_one(is_packed ? "softmax_packed_kernel" : "softmax_one_pass_kernel",
               is_packed ? std::vector<TemplateArgument>{call.in} : dtypes,
               {call.is_log, tiling.block_m, tiling.block_n, tiles_of_a_row});
  } else if (tiling.split == 1) {
    if (is_cuda(target))
      add_in_one("softmax_online_kernel", dtypes, {call.is_log, tiling.block_m, tiling.block_n, tiling.tiles});
    else
      add_in_one("softmax_three_pass_kernel", dtypes, {call.is_log, tiling.block_m, tiling.block_n});
  } else {
    const std::int64_t step = tiling.tiles * tiling.block_reduced(walk);
    const std::int64_t steps = ceil_div(tiling.places(walk), step);
    const std::int64_t elements_of_a_chunk = ceil_div(steps, tiling.split) * step;
    const auto chunk_size = static_cast<long long>(elements_of_a_chunk);  // as the kernel spells its parameter
    const DType statistic = compute_dtype(call.out);
    plan.workspace_bytes.assign(2, shares * tiling.block_kept(walk) * itemsize_bytes(statistic));
    KernelLaunch& partial =
        plan.launches.emplace_back(make_launch("softmax_partial_kernel", dtypes, call, tiling, shares,
                                               {tiling.block_m, tiling.block_n, tiling.tiles, tiling.split}, target));
    common::KernelParameters(partial)
        .written_workspace(0, statistic)
        .written_workspace(1, statistic)
        .read(kIn, call.in)
        .value(iteration)
        .value(chunk_size);
    KernelLaunch& combine = plan.launches.emplace_back(
        make_launch("softmax_combine_kernel", dtypes, call, tiling, shares,
                    {call.is_log, tiling.block_m, tiling.block_n, tiling.tiles, tiling.split}, target));
    common::KernelParameters(combine)
        .written(kOut, call.out)
        .read(kIn, call.in)
        .read_workspace(0, statistic)
        .read_workspace(1, statistic)
        .value(iteration)
        .value(chunk_size);
  }
  return plan;
}

Variant make_variant(const common::CallParser<SoftmaxCall>& parse, int axis, const KernelSource& source) {
  return common::variant_of<SoftmaxCall>(
      parse, {.name = axis == 1 ? "rows" : "columns",
              .doc = axis == 1 ? "tiles run along the normalized dimension"
                               : "another dimension is the contiguous one: tiles run across, and are reduced downwards",
              .source = source,
              .kernel = "kiln::ops::softmax_one_pass_kernel",  // the plan may name another
              .serves = [axis](const SoftmaxCall& call, const Target&) { return call.walk.axis == axis; },
              .space = [axis](const Target& target) { return row_space(axis, target, true); },
              .default_config =
                  [](const SoftmaxCall& call, const Target& target) {
                    return default_tiling(call.walk,
                                          {.element_bytes = call.widest_bytes(),
                                           .is_double = call.out == DType::f64,
                                           .can_split = true,
                                           .can_pack = call.is_packable()},
                                          target);
                  },
              .plan = plan_of});
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
  const common::CallParser<SoftmaxCall> parse([is_log](const OpCall& call) { return softmax_call(is_log, call); });
  spec.variants = {make_variant(parse, 1, source), make_variant(parse, 0, source)};
  // Subtract, compare, exponential, add, scale.
  spec.cost = [](const OpCall& call) { return common::each_tensor_once(call, 5); };
  spec.reference = [is_log](const OpCall& call) { softmax_reference(call, axis_of_call(is_log, call), is_log); };
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
