#include "ops/kv_cache/paged_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/errors.hpp"
#include "ops/common/grid.hpp"
#include "ops/common/kernel_parameters.hpp"

namespace kiln::kv_cache {
namespace {

/// Entries that a program looks at in one step, and the most programs: the host reads what each of them found.
constexpr std::int64_t kCudaBlock = 1024, kCpuBlock = 64, kMostPrograms = 512;

std::int64_t block_of(const Target& target) {
  return is_cuda(target) ? kCudaBlock : kCpuBlock;
}

/// Numbers that the kernel left in the workspace.
std::vector<std::int64_t> numbers_of(std::span<const std::byte> bytes, std::int64_t count) {
  std::vector<std::int64_t> numbers(static_cast<std::size_t>(count));
  std::memcpy(numbers.data(), bytes.data(), numbers.size() * sizeof(std::int64_t));
  return numbers;
}

using Verdict = std::function<void(std::span<const std::byte>)>;

/// The number of the workspace that a check's launch is to have.
int next_workspace(const LaunchPlan& plan) {
  return static_cast<int>(plan.workspace_bytes.size());
}

/// Puts `launch`, whose first parameter is the next workspace, before the rest of the plan.
void prepend(LaunchPlan& plan, KernelLaunch launch, std::int64_t numbers, Verdict verdict) {
  launch.source = embedded_source("ops/kv_cache/kernel_paged.hpp");
  launch.vector_width = 1;
  plan.check = LaunchCheck{1, next_workspace(plan), std::move(verdict)};
  plan.workspace_bytes.push_back(numbers * static_cast<std::int64_t>(sizeof(std::int64_t)));
  plan.launches.insert(plan.launches.begin(), std::move(launch));
}

/// One kind of index; where it is not below `limit`, `complain` throws with its row and the index.
struct IndexColumn {
  std::int64_t limit;
  std::function<void(std::int64_t row, std::int64_t index)> complain;
};

void add_index_check(LaunchPlan& plan, DType index, int tensor, ops::IndexCheckIteration it,
                     std::vector<IndexColumn> columns, const Target& target) {
  if (it.rows == 0) return;
  const std::int64_t programs = std::min(ceil_div(it.rows, 4 * block_of(target)), kMostPrograms);
  const auto num_columns = static_cast<std::int64_t>(columns.size());
  for (std::size_t column = 0; column < columns.size(); ++column) it.limits[column] = columns[column].limit;
  KernelLaunch launch;
  launch.kernel = "kiln::ops::check_indices_kernel";
  launch.template_arguments = {index, block_of(target), num_columns};
  launch.geometry.grid = {programs, num_columns, 1};
  common::KernelParameters(launch).written_workspace(next_workspace(plan), DType::i64).read(tensor, index).value(it);
  const std::int64_t numbers = 2 * programs * num_columns;
  prepend(plan, std::move(launch), numbers,
          [columns = std::move(columns), programs, numbers](std::span<const std::byte> bytes) {
            const std::vector<std::int64_t> found = numbers_of(bytes, numbers);
            std::size_t first = 0;
            for (std::size_t i = 0; i < found.size(); i += 2)
              if (found[i] < found[first]) first = i;
            if (found[first] == ops::kNothingFound) return;
            columns[first / 2 / static_cast<std::size_t>(programs)].complain(found[first], found[first + 1]);
          });
}

}  // namespace

void add_table_check(LaunchPlan& plan, const TableCheck& check, const Target& target) {
  const ops::TableCheckIteration& it = check.iteration;
  if (it.requests == 0) return;
  const std::int64_t programs = std::min<std::int64_t>(it.requests, kMostPrograms), numbers = 3 * programs;
  KernelLaunch launch;
  launch.kernel = "kiln::ops::check_table_kernel";
  launch.template_arguments = {check.table, check.lengths, std::min<std::int64_t>(block_of(target), 256)};
  launch.geometry.grid = {programs, 1, 1};
  common::KernelParameters(launch)
      .written_workspace(next_workspace(plan), DType::i64)
      .read(check.table_tensor, check.table)
      .read(check.lengths_tensor, check.lengths)
      .value(it);
  prepend(plan, std::move(launch), numbers, [check, numbers](std::span<const std::byte> bytes) {
    const std::vector<std::int64_t> found = numbers_of(bytes, numbers);
    std::size_t first = 0;
    for (std::size_t i = 0; i < found.size(); i += 3)
      if (found[i] < found[first]) first = i;
    const std::int64_t request = found[first], column = found[first + 1], value = found[first + 2];
    if (request == ops::kNothingFound) return;
    if (column < 0)
      throw_value_error(fmt::format(
          "op '{}': input 'seq_lens'[{}] is {}, expected 0 to {}, the tokens that {} 'block_table' of shape {} with "
          "pages of {} leave room for",
          check.op, request, value, check.iteration.most_tokens, check.room, to_string(check.table_shape),
          check.iteration.page));
    throw_value_error(fmt::format(
        "op '{}': input 'block_table'[{}, {}] is {}, which the request's length uses; '{}' {} has blocks 0 "
        "to {}",
        check.op, request, column, value, check.cache, to_string(check.cache_shape), check.iteration.num_blocks - 1));
  });
}

void add_table_check(LaunchPlan& plan, const PagedGatherCall& gather_call, const Target& target) {
  if (!gather_call.check_bounds) return;
  const ops::PagedGatherIteration& gather = gather_call.iteration;
  TableCheck check{.op = "kv_gather_paged",
                   .cache = "cache",
                   .room = "'max_len' and a",
                   .iteration = {},
                   .table_tensor = 2,
                   .lengths_tensor = 3,
                   .table = gather_call.table,
                   .lengths = gather_call.lengths,
                   .table_shape = gather_call.table_shape,
                   .cache_shape = gather_call.cache_shape};
  ops::TableCheckIteration& it = check.iteration;
  it.requests = gather_call.requests;
  it.most_tokens = gather.readable_tokens;
  it.page = gather.cache.page;
  it.num_blocks = gather.cache.num_blocks;
  std::copy_n(gather.table_strides, 2, it.table_strides);
  it.length_stride = gather.length_stride;
  add_table_check(plan, check, target);
}

void add_slot_check(LaunchPlan& plan, const AppendCall& append, const Target& target) {
  if (!append.check_bounds) return;
  const ops::PagedCache cache = append.iteration.caches[0];
  const char* const op = append.op();
  const std::int64_t limit = cache.num_blocks * cache.page;
  ops::IndexCheckIteration it{};
  it.rows = append.iteration.tokens;
  it.row_stride = append.iteration.slot_stride;
  const auto complain = [=](std::int64_t token, std::int64_t slot) {
    throw_value_error(
        fmt::format("op '{}': input 'slot_mapping'[{}] is {}, expected less than {}, the slots of {} blocks of {} "
                    "tokens, or a negative number to skip the token",
                    op, token, slot, limit, cache.num_blocks, cache.page));
  };
  add_index_check(plan, append.slots, 4, it, {{limit, complain}}, target);
}

void add_mapping_check(LaunchPlan& plan, const SwapCall& call, const Target& target) {
  if (!call.check_bounds) return;
  const ops::SwapIteration& swap = call.iteration;
  ops::IndexCheckIteration it{};
  it.rows = swap.pairs;
  it.row_stride = swap.pair_stride;
  it.column_stride = swap.side_stride;
  const auto column = [&](int side) {
    const std::string tensor = side == 0 ? "src" : "dst";
    const std::int64_t limit = swap.num_blocks[side];
    return IndexColumn{limit, [=](std::int64_t pair, std::int64_t block) {
                         throw_value_error(fmt::format(
                             "op 'swap_blocks': input 'block_mapping'[{}, {}] is {}, expected less than {}, the blocks "
                             "of '{}', or a negative number to skip the pair",
                             pair, side, block, limit, tensor));
                       }};
  };
  add_index_check(plan, call.mapping, 2, it, {column(0), column(1)}, target);
}

}  // namespace kiln::kv_cache
