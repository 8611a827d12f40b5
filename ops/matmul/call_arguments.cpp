#include "ops/matmul/call_arguments.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "ops/common/grid.hpp"

namespace kiln::matmul {
namespace {

/// Adds the parts of k that the first kernel left.
KernelLaunch combine_launch(const MatmulCall& call, ops::MatmulIteration it, const Target& target) {
  const std::int64_t block_n = std::min<std::int64_t>(ceil_power_of_two(call.n), is_cuda(target) ? 128 : 64);
  const std::int64_t block_m = (is_cuda(target) ? 512 : 64) / block_n;
  it.row_blocks = ceil_div(call.m, block_m);
  it.column_blocks = ceil_div(call.n, block_n);
  it.tiles = it.row_blocks * it.column_blocks * call.batches();
  check_grid(call.op, it.tiles, target);
  KernelLaunch launch;
  launch.kernel = "kiln::ops::matmul_combine_kernel";
  launch.template_arguments = {TypeName{call.epilogue_type()}, order_of(call.out), block_m,           block_n,
                               !call.batch_extents.empty(),    call.accumulator,   call.addend.dtype, call.out.dtype};
  common::KernelParameters parameters(launch);
  parameters.read_workspace(0, call.accumulator);
  add_epilogue_parameters(call, it, parameters);
  launch.geometry.grid = {it.tiles, 1, 1};
  launch.geometry.num_warps = 4;
  return launch;
}

/// Ends a plan whose only launch leaves partial sums: gives that launch the workspace and the iteration that describe
/// them, and adds the kernel that joins them.
void add_combination(const MatmulCall& call, ops::MatmulIteration it, const Target& target, LaunchPlan& plan) {
  const std::int64_t pitch = ops::matmul_partial_pitch(call.n, static_cast<int>(itemsize_bytes(call.accumulator)));
  it.split_stride = call.m * pitch * call.batches();
  plan.workspace_bytes.push_back(it.split_stride * it.num_splits * itemsize_bytes(call.accumulator));
  plan.launches.push_back(combine_launch(call, it, target));
  it.row_strides[ops::kMatmulOut] = pitch;
  it.column_strides[ops::kMatmulOut] = 1;
  std::int64_t batch_stride = call.m * pitch;
  for (int dim = 0; dim < it.num_batch_dims; ++dim) {
    it.batch_strides[ops::kMatmulOut][dim] = batch_stride;
    batch_stride *= it.batch_extents[dim];
  }
  common::KernelParameters(plan.launches.front()).written_workspace(0, call.accumulator).value(it);
}

}  // namespace

ops::MatmulIteration make_iteration(const MatmulCall& call, std::int64_t block_m, std::int64_t block_n,
                                    const KSplit& split, const Target& target) {
  ops::MatmulIteration it{};
  it.m = call.m;
  it.n = call.n;
  it.k = call.k;
  it.row_blocks = ceil_div(call.m, block_m);
  it.column_blocks = ceil_div(call.n, block_n);
  it.tiles = it.row_blocks * it.column_blocks * call.batches();
  check_grid(call.op, it.tiles, target);
  it.k_per_split = split.k_per_split;
  it.num_splits = split.num_splits;
  it.num_batch_dims = static_cast<int>(call.batch_extents.size());
  std::copy(call.batch_extents.begin(), call.batch_extents.end(), it.batch_extents);
  const Matrix* const matrices[] = {&call.a, &call.b, &call.addend, &call.out};
  for (int i = 0; i < ops::kMatmulMatrices; ++i) {
    it.row_strides[i] = matrices[i]->row_stride;
    it.column_strides[i] = matrices[i]->column_stride;
    std::copy(matrices[i]->batch_strides.begin(), matrices[i]->batch_strides.end(), it.batch_strides[i]);
  }
  return it;
}

void add_epilogue_parameters(const MatmulCall& call, const ops::MatmulIteration& it,
                             common::KernelParameters& parameters) {
  parameters.read(call.addend.tensor, call.addend.dtype)
      .written(call.out.tensor, call.out.dtype)
      .read(call.scale_a, DType::f32)
      .read(call.scale_b, DType::f32)
      .value(it);
  call.add_scalars(parameters);
}

TemplateArgument first_argument(const MatmulCall& call, const KSplit& split) {
  if (split.num_splits == 1) return TypeName{call.epilogue_type()};
  return call.accumulator;
}

void end_plan(const MatmulCall& call, const ops::MatmulIteration& it, const Target& target, std::string_view stem,
              LaunchPlan& plan) {
  KernelLaunch& launch = plan.launches.back();
  const bool is_whole = it.num_splits == 1;
  launch.kernel = fmt::format("kiln::ops::{}{}_kernel", stem, is_whole ? "" : "_partial");
  if (!is_whole) {
    add_combination(call, it, target, plan);
    return;
  }
  for (const DType dtype : {call.addend.dtype, call.out.dtype}) launch.template_arguments.emplace_back(dtype);
  common::KernelParameters parameters(launch);
  add_epilogue_parameters(call, it, parameters);
}

}  // namespace kiln::matmul
