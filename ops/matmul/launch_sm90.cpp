#include "ops/matmul/launch_sm90.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "ops/common/grid.hpp"
#include "ops/layout/workspace_copy.hpp"
#include "ops/matmul/call_arguments.hpp"
#include "ops/matmul/call_sm90.hpp"
#include "ops/matmul/estimate_sm90.hpp"
#include "ops/matmul/iteration_sm90.hpp"
#include "ops/matmul/kernel_sm90_tiling.hpp"
#include "ops/matmul/machine.hpp"
#include "ops/matmul/tiling_sm90.hpp"

namespace kiln::matmul {
namespace {

constexpr std::int64_t kRowBytes = ops::MatmulSm90Places::kRowBytes;

// Both name every field: one that is added to the struct does not compile here, and one that is named otherwise, or out
// of order, not with the kernel.
StructValue argument_of(const ops::MatmulSm90Tiling& tiling) {
  const auto& [block_m, block_n, stages, cluster_m, cluster_n, split_k, math_groups, tile_each, resident, shares] =
      tiling;
  return {"kiln::ops::MatmulSm90Tiling",
          {{"block_m", block_m},
           {"block_n", block_n},
           {"stages", stages},
           {"cluster_m", cluster_m},
           {"cluster_n", cluster_n},
           {"split_k", split_k},
           {"math_groups", math_groups},
           {"tile_each", tile_each},
           {"resident", resident},
           {"shares", shares}}};
}
StructValue argument_of(const ops::MatmulSm90Layout& layout) {
  const auto& [a_is_mn, b_is_mn, transposed, out_is_mapped] = layout;
  return {"kiln::ops::MatmulSm90Layout",
          {{"a_is_mn", a_is_mn}, {"b_is_mn", b_is_mn}, {"transposed", transposed}, {"out_is_mapped", out_is_mapped}}};
}

/// As kernels lay out rows of so many bytes.
TensorMapSwizzle swizzle_of(std::int64_t row_bytes) {
  return row_bytes == 128  ? TensorMapSwizzle::b128
         : row_bytes == 64 ? TensorMapSwizzle::b64
         : row_bytes == 32 ? TensorMapSwizzle::b32
                           : TensorMapSwizzle::none;
}

/// `sharers` blocks of a cluster ask for a part each.
TensorMap operand_map(const Sm90Operand& operand, std::int64_t k, std::int64_t batches, std::int64_t block,
                      std::int64_t sharers, bool tf32) {
  const std::int64_t size = itemsize_bytes(operand.dtype), block_k = kRowBytes / size;
  TensorMap map;
  map.tensor_index = operand.tensor;
  map.workspace_index = operand.workspace;
  map.dtype = operand.dtype;
  map.rounds_to_tf32 = tf32;
  map.rank = 3;
  map.extents = {operand.is_mn ? operand.extent : k, operand.is_mn ? k : operand.extent,
                 operand.batch_stride != 0 ? batches : 1};
  map.strides_bytes = {operand.pitch * size,
                       operand.batch_stride != 0 ? operand.batch_stride * size : operand.pitch * size};
  if (operand.is_mn) {
    const int panel = ops::matmul_sm90_panel(static_cast<int>(size), static_cast<int>(block));
    const auto panels = static_cast<int>(ceil_div(block, panel));
    const std::int64_t of_a_panel = sharers / ops::matmul_sm90_panel_sharers(panels, static_cast<int>(sharers));
    map.box = {panel, static_cast<std::int32_t>(block_k / of_a_panel), 1};
  } else {
    map.box = {static_cast<std::int32_t>(block_k), ops::matmul_sm90_box_rows(static_cast<int>(block / sharers)), 1};
  }
  const int inner = map.box[0];
  map.swizzle = swizzle_of(inner * size);
  return map;
}

TensorMap out_map(const Sm90Call& call, int tensor, DType dtype, const ops::MatmulSm90Tiling& tiling) {
  const std::int64_t size = itemsize_bytes(dtype);
  const std::int64_t columns = tiling.columns();
  const std::int64_t inner =
      call.transposed ? std::min<std::int64_t>(kRowBytes / size, 64)
                      : ops::MatmulSm90Places::columns_at_once(static_cast<int>(columns), static_cast<int>(size));
  const std::int64_t pitch = call.out_strides[call.transposed ? 1 : 0] * size;
  TensorMap map;
  map.tensor_index = tensor;
  map.dtype = dtype;
  map.rank = 3;
  map.extents = {call.transposed ? call.m : call.n, call.transposed ? call.n : call.m, call.batches};
  const std::int64_t line = pitch > 0 ? pitch : ceil_div(map.extents[0] * size, 16) * 16;
  map.strides_bytes = {line, call.out_strides[2] != 0 ? call.out_strides[2] * size : line};
  const int lines =
      call.transposed ? ops::MatmulSm90Places::lines_at_once(static_cast<int>(columns), static_cast<int>(size)) : 64;
  map.box = {static_cast<std::int32_t>(inner), lines, 1};
  map.swizzle = swizzle_of(inner * size);
  return map;
}

ops::MatmulSm90Iteration make_iteration(const Sm90Call& call, const Sm90Division& division) {
  const ops::MatmulSm90Tiling& tiling = division.tiling;
  const int rows = static_cast<int>(division.rows), columns = static_cast<int>(division.columns);
  const int band = static_cast<int>(division.band_rows);
  ops::MatmulSm90Iteration it{};
  it.tiles = static_cast<int>(division.tiles);
  it.whole_tiles = static_cast<int>(division.whole_tiles);
  it.k_blocks = static_cast<int>(sm90_k_blocks(call));
  it.share = static_cast<int>(division.share);
  it.team = ops::matmul_sm90_divisor(static_cast<int>(division.team));
  it.k_divisor = ops::matmul_sm90_divisor(it.k_blocks);
  it.matrix = ops::matmul_sm90_divisor(rows * columns);
  it.band = ops::matmul_sm90_divisor(band * columns);
  it.band_rows = ops::matmul_sm90_divisor(band);
  it.last_band = (rows - 1) / band;
  it.last_band_rows = ops::matmul_sm90_divisor(rows - it.last_band * band);
  it.a_batch = call.a.batch_stride != 0;
  it.b_batch = call.b.batch_stride != 0;
  // With more clusters, or an operand for all, they share as much in their own order. Where k is short, what they store
  // counts for more, and is a little slower so.
  constexpr int kMostClusters = 8, kLeastBlocks = 8;
  it.spreads = it.a_batch != 0 && it.b_batch != 0 && tiling.split_k == 1 && rows * columns > 1 &&
               rows * columns <= kMostClusters && it.k_blocks >= kLeastBlocks;
  it.m = static_cast<int>(call.m);
  it.n = static_cast<int>(call.n);
  std::copy_n(call.out_strides, 3, it.out_strides);
  std::copy_n(call.addend_strides, 3, it.addend_strides);
  return it;
}

/// Copies an operand to its workspace.
void add_copy(const Sm90Operand& operand, const Sm90Call& call, const Target& target, LaunchPlan& plan) {
  const std::int64_t batches = operand.batch_stride != 0 ? call.batches : 1;
  TensorView to, from;
  to.dtype = from.dtype = operand.dtype;
  to.device = from.device = Device::cuda();
  to.shape = from.shape = {batches, operand.extent, call.k};
  to.strides = {operand.batch_stride, operand.is_mn ? 1 : operand.pitch, operand.is_mn ? operand.pitch : 1};
  from.strides = {operand.tensor_batch_stride, operand.mn_stride, operand.k_stride};
  layout::add_workspace_copy("matmul", operand.workspace, to, operand.tensor, from, target, plan);
  // Operands that have changed places keep their workspaces: b's may come first.
  const auto workspace = static_cast<std::size_t>(operand.workspace);
  if (plan.workspace_bytes.size() <= workspace) plan.workspace_bytes.resize(workspace + 1);
  plan.workspace_bytes[workspace] = packed_bytes(operand, call);
}

ops::MatmulSm90Layout layout_of(const Sm90Call& call) {
  return {.a_is_mn = call.a.is_mn,
          .b_is_mn = call.b.is_mn,
          .transposed = call.transposed,
          .out_is_mapped = call.out_is_mapped};
}

/// Gives the plan's launch scratch memory for the parts of shared tiles, and adds the kernel that sums them. `unused`:
/// a map for a kernel that stores without one.
void add_combination(const MatmulCall& matmul, const Sm90Call& call, const Sm90Division& division,
                     const ops::MatmulSm90Iteration& it, const TensorMap& unused, LaunchPlan& plan) {
  constexpr int kColumns = 16;  // of a program: all widths of tiles are multiples of it
  const ops::MatmulSm90Tiling &tiling = division.tiling, piece = ops::matmul_sm90_piece(kColumns);
  const int workspace = static_cast<int>(plan.workspace_bytes.size());
  plan.workspace_bytes.push_back(division.scratch_bytes());
  common::KernelParameters(plan.launches.back()).written_workspace(workspace, DType::f32);

  KernelLaunch& launch = plan.launches.emplace_back();
  launch.kernel = "kiln::ops::matmul_sm90_combine_kernel";
  const bool loads_a = call.a.is_mn && itemsize_bytes(call.a.dtype) != 2;
  launch.template_arguments = {
      matmul.out.dtype, matmul.addend.dtype, call.a.dtype, TypeName{matmul.epilogue_type()}, std::int64_t{kColumns},
      loads_a,          call.out_is_mapped};
  const std::int64_t blocks = (division.tiles - division.whole_tiles) * tiling.cluster_blocks();
  launch.geometry.grid = {blocks * (tiling.block_m / 64) * (tiling.block_n / kColumns), 1, 1};
  launch.geometry.num_warps = 4;
  launch.geometry.shared_bytes = ops::MatmulSm90Places{piece, false}.bytes();
  common::KernelParameters parameters(launch);
  parameters.tensor_map(call.out_is_mapped ? out_map(call, matmul.out.tensor, matmul.out.dtype, piece) : unused)
      .written(matmul.out.tensor, matmul.out.dtype)
      .read(matmul.addend.tensor, matmul.addend.dtype)
      .read(matmul.scale_a, DType::f32)
      .read(matmul.scale_b, DType::f32);
  matmul.add_scalars(parameters);
  parameters.value(it)
      .value(ops::MatmulSm90TileShape{tiling.block_m, tiling.block_n, tiling.cluster_m, tiling.cluster_n})
      .value(call.transposed)
      .read_workspace(workspace, DType::f32);
}

Sm90Processors processors_of(const MatmulCall& matmul, const Target& target) {
  return {usable_processors(matmul, target), usable_in_clusters(matmul, target)};
}

LaunchPlan make_plan(const MatmulCall& matmul, const Sm90Call& as_it_lies, const Config& config, const Target& target) {
  const Sm90Choice choice = sm90_choice(config);
  Sm90Call call = sm90_oriented(as_it_lies, choice);
  const Sm90Division division = sm90_division(call, choice, processors_of(matmul, target), matmul.num_sms == 0);
  const ops::MatmulSm90Tiling& tiling = division.tiling;
  // A box's lines are whole 16 bytes, and 8 columns of 8 bits are not.
  const int out_size = static_cast<int>(itemsize_bytes(matmul.out.dtype));
  if (!call.transposed && ops::MatmulSm90Places::columns_at_once(tiling.columns(), out_size) * out_size < 16)
    call.out_is_mapped = false;
  LaunchPlan plan;
  for (const Sm90Operand* operand : {&call.a, &call.b})
    if (operand->workspace >= 0) add_copy(*operand, call, target, plan);
  KernelLaunch& launch = plan.launches.emplace_back();
  launch.template_arguments = {
      matmul.out.dtype,    matmul.addend.dtype,         call.a.dtype, call.b.dtype, TypeName{matmul.epilogue_type()},
      argument_of(tiling), argument_of(layout_of(call))};
  const ops::MatmulSm90Iteration it = make_iteration(call, division);
  launch.geometry.grid = {division.clusters * tiling.cluster_blocks(), 1, 1};
  launch.geometry.num_warps = static_cast<std::int32_t>(4 + 4 * tiling.math_groups);
  launch.geometry.shared_bytes = ops::MatmulSm90Places{tiling, call.b.is_mn}.bytes();
  const TensorMap a_map = operand_map(call.a, call.k, call.batches, tiling.block_m, tiling.cluster_n, matmul.tf32);
  common::KernelParameters parameters(launch);
  parameters.tensor_map(a_map)
      .tensor_map(operand_map(call.b, call.k, call.batches, tiling.block_n, tiling.cluster_m, matmul.tf32))
      // Without a map of its own the kernel never looks at this one.
      .tensor_map(call.out_is_mapped ? out_map(call, matmul.out.tensor, matmul.out.dtype, tiling) : a_map)
      .written(matmul.out.tensor, matmul.out.dtype)
      .read(matmul.addend.tensor, matmul.addend.dtype)
      .read(matmul.scale_a, DType::f32)
      .read(matmul.scale_b, DType::f32);
  matmul.add_scalars(parameters);
  parameters.value(it);
  if (division.num_shares > 0)
    add_combination(matmul, call, division, it, a_map, plan);
  else
    parameters.written(-1, DType::f32);
  return plan;
}

Sm90Conditions conditions_of(const FamilyCall& call, const Target& target) {
  return {.out_bytes = itemsize_bytes(call.matmul.out.dtype),
          .activation = call.matmul.activation,
          .processors = processors_of(call.matmul, target),
          .may_split = call.matmul.num_sms == 0};
}

std::string name_of(Sm90Form form) {
  constexpr std::string_view kNames[] = {"sm90", "sm90_with_addend", "sm90_narrow"};
  return std::string(kNames[static_cast<std::size_t>(form)]);
}

Variant sm90_variant(const MatmulParser& parse, const KernelSource& source, Sm90Form form) {
  return common::variant_of<FamilyCall>(
      parse,
      {.name = name_of(form),
       .doc = "the copy engine brings boxes in, warpgroups multiply them; blocks share what they read and take tile "
              "after tile",
       .source = source,
       .kernel = "kiln::ops::matmul_sm90_kernel",
       .serves =
           [form](const FamilyCall& call, const Target& target) {
             // A cluster is not to be larger than what may be used.
             return has_sm90_kernel(target) && (call.matmul.num_sms == 0 || call.matmul.num_sms >= 4) &&
                    call.sm90.has_value() && call.sm90->form == form;
           },
       .space = [form](const Target&) { return sm90_space(form); },
       .plan = [](const FamilyCall& call, const Config& config,
                  const Target& target) { return make_plan(call.matmul, call.sm90.value(), config, target); },
       // The same without the code for shares is a little faster.
       .worth_trying = [](const FamilyCall&, const Config& config,
                          const Target&) { return config.at("K_SHARE") != kNoShare; },
       .estimated_default = [](const FamilyCall& call, const Target& target) -> EstimatedConfig {
         const Sm90Estimate best = sm90_default(call.sm90.value(), conditions_of(call, target));
         return {sm90_config(best.choice), best.us};
       },
       .ranking =
           [](const FamilyCall& call, const Target& target) {
             std::vector<Config> configs;
             for (const Sm90Estimate& estimate : sm90_ranking(call.sm90.value(), conditions_of(call, target)))
               configs.push_back(sm90_config(estimate.choice));
             return configs;
           }});
}

}  // namespace

std::vector<Variant> sm90_variants(const MatmulParser& parse) {
  const KernelSource source = embedded_source("ops/matmul/kernel_sm90.cuh");
  std::vector<Variant> variants;
  for (const Sm90Form form : kSm90Forms) variants.push_back(sm90_variant(parse, source, form));
  return variants;
}

}  // namespace kiln::matmul
