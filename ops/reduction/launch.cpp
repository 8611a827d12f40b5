#include "ops/reduction/launch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "core/errors.hpp"
#include "ops/common/call_parser.hpp"
#include "ops/common/grid.hpp"
#include "ops/common/kernel_parameters.hpp"
#include "ops/reduction/collapse.hpp"
#include "ops/reduction/default_config.hpp"
#include "ops/reduction/single_element.hpp"
#include "ops/reduction/tiling.hpp"

namespace kiln::reduction {
namespace {

constexpr std::int64_t kWorkspaceAlignmentBytes = 256;

/// The reducer's type, and the sizes of the numbers in the states it leaves in a workspace.
struct Reducer {
  std::string type;
  std::vector<std::int64_t> part_bytes;
};

Reducer reducer_of(const Reduction& reduction) {
  const std::int64_t bytes = itemsize_bytes(reduction.accumulator);
  const auto make = [&](std::string_view name, std::string_view flags, std::vector<std::int64_t> parts) {
    return Reducer{fmt::format("kiln::ops::{}<{}{}>", name, info(reduction.accumulator).tl_name, flags),
                   std::move(parts)};
  };
  switch (reduction.kind) {
    case Kind::sum:
      return make("SumReducer", "", {bytes});
    case Kind::mean:
      return make("MeanReducer", "", {bytes});
    case Kind::prod:
      return make("ProdReducer", "", {bytes});
    case Kind::amax:
      return make("ExtremumReducer", ", true", {bytes});
    case Kind::amin:
      return make("ExtremumReducer", ", false", {bytes});
    case Kind::max:
      return make("ArgExtremumReducer", ", true, true", {bytes, 8});
    case Kind::min:
      return make("ArgExtremumReducer", ", false, true", {bytes, 8});
    case Kind::argmax:
      return make("ArgExtremumReducer", ", true, false", {bytes, 8});
    case Kind::argmin:
      return make("ArgExtremumReducer", ", false, false", {bytes, 8});
    case Kind::any:
      return make("AnyReducer", "", {4});
    case Kind::all:
      return make("AllReducer", "", {4});
    case Kind::var:
      return make("VarReducer", ", false", {bytes, bytes, bytes});
    case Kind::std:
      return make("VarReducer", ", true", {bytes, bytes, bytes});
    case Kind::norm:
      if (reduction.exponent == 0) return make("CountReducer", "", {bytes});
      if (reduction.exponent == 1) return make("AbsSumReducer", "", {bytes});
      if (reduction.exponent == 2) return make("EuclideanReducer", "", {bytes});
      if (std::isinf(reduction.exponent))
        return make("AbsExtremumReducer", reduction.exponent > 0 ? ", true" : ", false", {bytes});
      return make("PowerSumReducer", "", {bytes});
    case Kind::logsumexp:
      break;
  }
  return make("LogSumExpReducer", "", {bytes, bytes});
}

/// A call as the kernels see it.
struct ReductionCall {
  const OpRow* row = nullptr;
  Reduction reduction;
  CollapsedReduction collapsed;
  CollapsedReduction of_outputs;  ///< the same, but where it is spread out: as the combining kernel sees it
  Reducer reducer;
  DType in = DType::f32;
  std::vector<DType> outputs;

  std::int64_t itemsize() const { return itemsize_bytes(in); }
  /// Rows of the input that a config takes as one.
  std::int64_t fold(const Config& config, const Target& target) const {
    const std::int64_t* const fold = config.find("FOLD");
    return is_cuda(target) && fold != nullptr && *fold != 0 && !finds_index(reduction.kind)
               ? fold_of(collapsed, config.at("BLOCK_N"), itemsize())
               : 1;
  }
};

ReductionCall reduction_call(const OpRow& row, const OpCall& call) {
  ReductionCall result;
  result.row = &row;
  result.reduction = resolve(row, call.inputs[0], call.attributes);
  result.of_outputs = collapse(call.inputs[0], call.outputs, result.reduction.axes, finds_index(result.reduction.kind));
  const bool spreads = finds_index(result.reduction.kind) && gains_by_spreading(result.of_outputs);
  result.collapsed = spreads ? spread_out(result.of_outputs) : result.of_outputs;
  result.reducer = reducer_of(result.reduction);
  result.in = call.inputs[0].dtype;
  for (const TensorView& output : call.outputs) result.outputs.push_back(output.dtype);
  return result;
}

ops::ReductionIteration make_iteration(const CollapsedReduction& collapsed, std::int64_t kept_block,
                                       const Split& split) {
  ops::ReductionIteration it{};
  it.kept = collapsed.kept[0].extent;
  it.kept_stride = collapsed.kept[0].strides[kInput];
  it.kept_blocks = ceil_div(it.kept, kept_block);
  it.kept_total = collapsed.kept_total;
  it.input_offset = collapsed.input_offset;
  for (int i = 0; i < ops::kMaxReductionOutputs; ++i)
    it.output_strides[i] = collapsed.kept[0].strides[kFirstOutput + static_cast<std::size_t>(i)];
  for (std::size_t d = 1; d < collapsed.kept.size(); ++d) {
    const int outer = it.num_outer_kept++;
    it.outer_kept_extents[outer] = collapsed.kept[d].extent;
    it.outer_kept_strides[outer] = collapsed.kept[d].strides[kInput];
    for (int i = 0; i < ops::kMaxReductionOutputs; ++i)
      it.outer_output_strides[i][outer] = collapsed.kept[d].strides[kFirstOutput + static_cast<std::size_t>(i)];
  }
  it.reduced = collapsed.reduced[0].extent;
  it.reduced_stride = collapsed.reduced[0].strides[kInput];
  it.place_stride = collapsed.reduced[0].strides[kPlace];
  for (std::size_t d = 1; d < collapsed.reduced.size(); ++d) {
    const int outer = it.num_outer_reduced++;
    it.outer_reduced_extents[outer] = collapsed.reduced[d].extent;
    it.outer_reduced_strides[outer] = collapsed.reduced[d].strides[kInput];
  }
  it.outer_reduced = it.reduced == 0 ? 1 : collapsed.reduced_total / it.reduced;
  it.pieces = split.pieces;
  it.piece_extent = split.piece_extent;
  it.outer_reduced_per_chunk = split.outer_per_group;
  it.chunks = split.pieces * split.groups;
  return it;
}

/// Positions inside a chunk are 32 bits wide, so enough elements to one output take more chunks than a grid holds.
void check_chunks(const OpRow& row, const Reduction& reduction, const Split& split, const Target& target) {
  if (is_cuda(target) && std::max(split.pieces, split.groups) > kMostGridExtent)
    throw_value_error(fmt::format(
        "op '{}': {} elements to each output take {} chunks, but a GPU's grid holds {}; reduce the tensor in parts",
        row.name, reduction.count, split.pieces * split.groups, kMostGridExtent));
}

void add_outputs(const ReductionCall& call, KernelLaunch& launch, common::KernelParameters& parameters) {
  for (std::size_t i = 0; i < call.outputs.size(); ++i) {
    launch.template_arguments.emplace_back(call.outputs[i]);
    parameters.written(static_cast<int>(i), call.outputs[i]);
  }
}

/// As the kernels declare the states in a workspace.
constexpr const char* kStates = "kiln::tl::uint8_t";

/// Joins the chunks: a tile of chunks by kept elements, on a GPU large enough to have all of them in flight at once.
KernelLaunch combine_launch(const ReductionCall& call, ops::ReductionIteration it, const ops::ReductionScalars& scalars,
                            const Target& target) {
  const Reducer& reducer = call.reducer;
  const std::int64_t block_n = std::min<std::int64_t>(ceil_power_of_two(it.kept), 32);
  const std::int64_t most_elements = is_cuda(target) ? (reducer.part_bytes.size() == 1 ? 8192 : 4096) : 64;
  std::int64_t block_m = std::min(ceil_power_of_two(it.chunks), most_elements / block_n);
  if (is_cuda(target)) block_m = std::max(block_m, 32 / block_n);
  const std::int64_t num_warps = std::clamp<std::int64_t>(block_m * block_n / 256, 1, 16);

  it.kept_stride = 1;
  it.kept_blocks = ceil_div(it.kept, block_n);
  KernelLaunch launch;
  launch.kernel = "kiln::ops::reduction_combine_kernel";
  launch.template_arguments = {TypeName{reducer.type}, block_m, block_n, it.num_outer_kept > 0};
  common::KernelParameters parameters(launch);
  parameters.written_workspace(0, kStates).value(it).value(scalars);
  add_outputs(call, launch, parameters);
  const std::int64_t programs = kept_programs(call.of_outputs, block_n);
  check_grid(call.row->name, programs, target);
  launch.geometry.grid = {programs, 1, 1};
  launch.geometry.num_warps = static_cast<std::int32_t>(num_warps);
  launch.vector_width = 1;
  return launch;
}

LaunchPlan make_plan(const ReductionCall& call, const Config& config, const Target& target) {
  const OpRow& row = *call.row;
  const Reduction& reduction = call.reduction;
  const CollapsedReduction& collapsed = call.collapsed;
  const Reducer& reducer = call.reducer;
  const bool rows = collapsed.reduces_rows();
  const std::int64_t block_m = config.at("BLOCK_M"), block_n = config.at("BLOCK_N");
  const std::int64_t span = span_of(collapsed, config), kept_block = kept_block_of(collapsed, config);
  const std::int64_t itemsize = call.itemsize();
  const std::int64_t fold = call.fold(config, target);
  const CollapsedReduction folded = folded_by(collapsed, fold);
  const std::int64_t programs = kept_programs(folded, kept_block);
  check_grid(row.name, programs, target);
  const Split split = split_of(folded, config, itemsize, target);
  check_chunks(row, reduction, split, target);
  ops::ReductionIteration it = make_iteration(folded, kept_block, split);
  if (fold > 1) {
    it.kept_total = collapsed.kept_total;
    it.fold = fold;
    it.fold_columns = collapsed.kept[0].extent;
    it.fold_elements = collapsed.kept[0].extent * collapsed.reduced[0].extent;
  }
  const std::int64_t states = it.chunks * fold;

  std::int64_t workspace_bytes = 0;
  for (std::size_t part = 0; part < reducer.part_bytes.size(); ++part) {
    it.part_bytes[part] = workspace_bytes;
    const std::int64_t bytes = states * it.kept_total * reducer.part_bytes[part];
    workspace_bytes += ceil_div(bytes, kWorkspaceAlignmentBytes) * kWorkspaceAlignmentBytes;
  }

  LaunchPlan plan;
  KernelLaunch launch;
  launch.template_arguments = {TypeName{reducer.type}, reduction.via};
  if (span == 1) launch.template_arguments.emplace_back(std::int64_t{rows ? 1 : 0});
  launch.template_arguments.insert(
      launch.template_arguments.end(),
      {collapsed.has_dense_columns(), span == 1 ? block_m : block_n, span == 1 ? block_n : span, config.at("UNROLL"),
       it.num_outer_kept + it.num_outer_reduced > 0, call.in});
  const ops::ReductionScalars scalars{reduction.divisor, reduction.exponent};
  common::KernelParameters parameters(launch);
  parameters.read(static_cast<int>(call.outputs.size()), call.in).value(it).value(scalars);
  if (const std::int64_t* num_warps = config.find("num_warps"))
    launch.geometry.num_warps = static_cast<std::int32_t>(*num_warps);
  launch.geometry.grid = {programs, split.pieces, split.groups};
  launch.vector_width =
      static_cast<std::int32_t>(moves_packets(folded, block_m, itemsize) ? kAccessBytes / itemsize : 1);
  if (states == 1 && !collapsed.is_spread) {
    if (span > 1) launch.kernel = "kiln::ops::reduction_span_kernel";
    add_outputs(call, launch, parameters);
    plan.launches.push_back(std::move(launch));
    return plan;
  }
  launch.kernel = span > 1 ? "kiln::ops::reduction_span_chunk_kernel" : "kiln::ops::reduction_chunk_kernel";
  if (span == 1) launch.template_arguments.insert(launch.template_arguments.end() - 1, fold > 1);
  launch.template_arguments.insert(launch.template_arguments.end() - 1,
                                   collapsed.is_spread);  // before the input's dtype
  parameters.written_workspace(0, kStates);
  plan.launches.push_back(std::move(launch));
  ops::ReductionIteration joined = make_iteration(call.of_outputs, kept_block, split);
  joined.chunks = collapsed.is_spread ? states * collapsed.kept_total : states;
  std::copy(std::begin(it.part_bytes), std::end(it.part_bytes), joined.part_bytes);
  plan.launches.push_back(combine_launch(call, joined, scalars, target));
  plan.workspace_bytes.push_back(workspace_bytes);
  return plan;
}

Config default_config(const ReductionCall& call, const Target& target) {
  const std::size_t parts = call.reducer.part_bytes.size();
  if (is_cuda(target)) return cuda_config(call.collapsed, call.itemsize(), parts, finds_index(call.reduction.kind));
  return cpu_config(call.collapsed, call.itemsize(), itemsize_bytes(call.reduction.accumulator), parts, target);
}

bool worth_trying(const ReductionCall& call, const Config& config, const Target& target) {
  const bool rows = call.collapsed.reduces_rows();
  const std::int64_t* const fold = config.find("FOLD");
  if (fold != nullptr && *fold != 0 && call.fold(config, target) == 1) return false;
  const std::int64_t kept = call.collapsed.kept[0].extent, reduced = call.collapsed.reduced[0].extent;
  const std::int64_t* const span = config.find("SPAN");
  if (span != nullptr && span_of(call.collapsed, config) != *span) return false;
  return config.at("BLOCK_M") <= ceil_power_of_two(rows ? kept : reduced) &&
         config.at("BLOCK_N") <= ceil_power_of_two(rows ? reduced : kept);
}

}  // namespace

std::vector<Variant> reduction_variants(const OpRow& row, const KernelSource& source) {
  const common::CallParser<ReductionCall> parse([&row](const OpCall& call) { return reduction_call(row, call); });
  std::vector<Variant> variants;
  if (may_be_the_element(row.kind)) variants.push_back(single_element_variant(row));
  variants.push_back(common::variant_of<ReductionCall>(
      parse,
      {.name = "tiled",
       .doc = "a loop over tiles with a state per lane; in chunks, which a second kernel joins, where outputs are few",
       .source = source,
       .kernel = "kiln::ops::reduction_kernel",
       .space = config_space,
       .default_config = default_config,
       .plan = make_plan,
       .worth_trying = worth_trying}));
  return variants;
}

}  // namespace kiln::reduction
