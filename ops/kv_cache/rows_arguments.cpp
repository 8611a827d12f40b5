#include "ops/kv_cache/rows_arguments.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "core/errors.hpp"
#include "ops/common/grid.hpp"
#include "ops/common/kernel_parameters.hpp"

namespace kiln::kv_cache {
namespace {

/// Pairs that a program looks at in one step, and the most programs: the host reads what each of them found.
constexpr std::int64_t kCudaBlock = 1024, kCpuBlock = 64, kMostPrograms = 256;

/// Two numbers of each program, see find_bad_rows_kernel.
void refuse_bad_row(const std::string& op, const ops::RowsIteration& it, std::int64_t programs,
                    std::span<const std::byte> bytes) {
  std::vector<std::int64_t> found(static_cast<std::size_t>(2 * programs));
  std::memcpy(found.data(), bytes.data(), found.size() * sizeof(std::int64_t));
  std::size_t first = 0;
  for (std::size_t i = 0; i < found.size(); i += 2)
    if (found[i] < found[first]) first = i;
  if (found[first] == ops::kNoBadRow) return;
  const std::int64_t pair = found[first] / 2, side = found[first] % 2;
  throw_value_error(
      fmt::format("op '{}': input 'indices'[{}, {}, {}] is {}, expected less than {}, the rows of '{}', or a negative "
                  "number to skip the pair; nothing was copied",
                  op, pair / it.topk, pair % it.topk, side, found[first + 1], side == 0 ? it.src_rows : it.dst_rows,
                  side == 0 ? "src" : "dst"));
}

}  // namespace

int tensor_of(const RowsCall& call, RowsInput input) {
  const bool is_left_out = (input == kCounts && !call.has_counts) || (input == kSlotMap && !call.has_slot_map);
  return is_left_out ? -1 : static_cast<int>(input);
}

void add_rows_check(const RowsCall& call, const Target& target, LaunchPlan& plan) {
  if (!call.check_bounds || call.iteration.pairs == 0) return;
  const std::int64_t block = is_cuda(target) ? kCudaBlock : kCpuBlock;
  const std::int64_t programs = std::min(ceil_div(call.iteration.pairs, 4 * block), kMostPrograms);
  const auto workspace = static_cast<int>(plan.workspace_bytes.size());
  plan.workspace_bytes.push_back(2 * programs * static_cast<std::int64_t>(sizeof(std::int64_t)));
  KernelLaunch launch;
  launch.source = embedded_source("ops/kv_cache/kernel_rows.hpp");
  launch.kernel = "kiln::ops::find_bad_rows_kernel";
  launch.template_arguments = {call.index, call.count, block};
  launch.geometry.grid = {programs, 1, 1};
  launch.vector_width = 1;
  common::KernelParameters(launch)
      .written_workspace(workspace, DType::i64)
      .read(tensor_of(call, kIndices), call.index)
      .read(tensor_of(call, kCounts), call.count)
      .value(call.iteration);
  plan.launches.insert(plan.launches.begin(), std::move(launch));
  plan.check =
      LaunchCheck{1, workspace, [op = call.op, it = call.iteration, programs](std::span<const std::byte> bytes) {
                    refuse_bad_row(op, it, programs, bytes);
                  }};
}

}  // namespace kiln::kv_cache
