#include "ops/attention/block_times.hpp"

#include <algorithm>
#include <limits>
#include <span>

#include "ops/common/grid.hpp"

namespace kiln::attention {
namespace {

/// Blocks of queries that are looked at; of more, which see ever more keys, so many stand for all.
constexpr std::int64_t kMostSampled = 64;

/// What a program takes where its multiprocessor runs as many as it has room for, in microseconds: before and behind
/// its steps, for each step of BLOCK_N keys, and more for those where some queries see only some keys. `alone`: the
/// share of a step's time that remains where it has the multiprocessor to itself.
///
/// Fitted to calls of an H200 in bf16: 16,384 queries in requests of 1024 and of 16,384, full and causal, and one head
/// of 8192 (benchmarks/gpu_attention.py has the first).
struct BlockTimes {
  std::int64_t rows, keys, stages, warps, programs;
  double fixed_us, step_us, masked_us, alone;
  std::int64_t copy_warps = 0;
};

constexpr BlockTimes kOf64[] = {{128, 128, 2, 8, 2, 3.4, 2.12, 2.7, 0.64},
                                {64, 128, 2, 4, 3, 3.8, 1.76, 1.0, 0.53},
                                {64, 64, 2, 4, 4, 2.2, 1.23, 1.2, 0.52}};
constexpr BlockTimes kOf128[] = {{128, 64, 2, 8, 2, 6.5, 1.72, 1.2, 0.59},
                                 {128, 128, 2, 8, 1, 4.8, 1.81, 0.4, 1},
                                 {64, 64, 2, 4, 2, 3.9, 1.02, 0.6, 0.69},
                                 {64, 128, 2, 4, 1, 4.0, 1.19, 0.5, 1}};
// Beside heads of 256 warps copy: what a step takes is what its products do, where both warpgroups else wait for each
// other (calls of 512 to 16,384 queries, full and causal).
constexpr BlockTimes kOf256[] = {{128, 64, 2, 8, 1, 6.4, 1.64, 1.6, 1},
                                 {128, 64, 2, 8, 1, 6.7, 1.5, 1.6, 1, 4},
                                 {64, 64, 2, 4, 1, 5.0, 1.23, 1.0, 1}};

// Heads of two tiles. Those of 192 and 4 warps are estimates, between those of the kinds below and above; those of 96
// and two programs are fitted to 128 to 8192 queries, full and causal.
constexpr BlockTimes kOf96[] = {{128, 64, 2, 8, 2, 5.0, 1.49, 1.2, 0.59},
                                {128, 128, 2, 8, 1, 6.0, 1.68, 0.6, 1},
                                {128, 128, 2, 8, 1, 6.1, 1.62, 0.6, 1, 4},
                                {64, 128, 2, 4, 2, 3.9, 2.36, 0.8, 0.6},
                                {64, 64, 2, 4, 3, 3.6, 1.37, 0.9, 0.6}};
constexpr BlockTimes kOf192[] = {{128, 64, 2, 8, 1, 6.6, 1.47, 1.4, 1},
                                 {128, 64, 2, 8, 1, 6.6, 1.32, 1.4, 1, 4},
                                 {64, 64, 2, 4, 1, 4.8, 0.97, 0.8, 1}};

std::span<const BlockTimes> times_of(const HeadKind& kind, const ops::AttentionForm& form) {
  const int numbers =
      std::max(ops::parts_of_head(form.head_dim).numbers(), ops::parts_of_head(form.value_dim).numbers());
  if (kind.most_dim == 64) return kOf64;
  if (kind.most_dim == 128) return numbers <= 96 ? std::span<const BlockTimes>(kOf96) : kOf128;
  return numbers <= 192 ? std::span<const BlockTimes>(kOf192) : kOf256;
}

/// Microseconds of a program whose block begins with query `first`.
double program_us(const BlockTimes& times, const BlockWork& work, std::int64_t first, double share) {
  std::int64_t begin = 0, end = work.keys;
  if (work.low) begin = std::max(begin, first + *work.low);
  if (work.high) end = std::min(end, first + times.rows + *work.high);
  const auto steps = static_cast<double>(std::max<std::int64_t>(ceil_div(end - begin, times.keys), 0));
  const double masks = (work.low ? 1 : 0) + (work.high ? 1 : 0);
  return times.fixed_us + share * (steps * times.step_us + masks * times.masked_us);
}

double call_us(const BlockTimes& times, const BlockWork& work) {
  const std::int64_t blocks = std::max<std::int64_t>(ceil_div(work.queries, times.rows), 1),
                     programs = blocks * work.heads;
  const std::int64_t places = known_processors(work.processors) * times.programs;
  // Of steps where so many programs are at work.
  const auto share_of = [&](std::int64_t running) {
    const auto each = static_cast<double>(running) / static_cast<double>(places);
    return std::clamp(each, times.alone, 1.0);
  };
  if (!work.low && !work.high) {
    const double rest_us = programs % places == 0 ? 0 : program_us(times, work, 0, share_of(programs % places));
    const std::int64_t whole_turns = programs / places;
    return static_cast<double>(whole_turns) * program_us(times, work, 0, 1) + rest_us;
  }
  // Blocks differ, and the longest begin first, so that all places have work until the end.
  const double share = share_of(std::min(programs, places));
  double sum_us = 0, longest_us = 0;
  const std::int64_t sampled = std::min(blocks, kMostSampled);
  for (std::int64_t i = 0; i < sampled; ++i) {
    const std::int64_t block = sampled == 1 ? 0 : i * (blocks - 1) / (sampled - 1);
    const double block_us = program_us(times, work, block * times.rows, share);
    sum_us += block_us;
    longest_us = std::max(longest_us, block_us);
  }
  const double all_us = sum_us / static_cast<double>(sampled) * static_cast<double>(programs);
  return std::max(longest_us, all_us / static_cast<double>(std::min(programs, places)));
}

}  // namespace

Config quickest_config(const HeadKind& kind, const ops::AttentionForm& form, const BlockWork& work) {
  const BlockTimes* best = nullptr;
  double least_us = std::numeric_limits<double>::infinity();
  for (const BlockTimes& times : times_of(kind, form)) {
    if (times.copy_warps != 0 && !work.in_boxes) continue;
    if (const double us = call_us(times, work); us < least_us) {
      best = &times;
      least_us = us;
    }
  }
  return {{"BLOCK_M", best->rows},    {"BLOCK_N", best->keys},      {"NUM_STAGES", best->stages},
          {"num_warps", best->warps}, {"PROGRAMS", best->programs}, {"copy_warps", best->copy_warps}};
}

}  // namespace kiln::attention
