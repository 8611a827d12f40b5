#include "ops/matmul/launch_direct.hpp"

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "core/cpu_features.hpp"
#include "ops/common/cpu_choice.hpp"
#include "ops/common/grid.hpp"
#include "ops/matmul/call_arguments.hpp"
#include "ops/matmul/exchange.hpp"
#include "ops/matmul/tiling.hpp"

namespace kiln::matmul {
namespace {

/// Work that is worth a program of its own, in multiply-adds: some ten microseconds of a core, or two where that makes
/// no more than kFewPrograms.
constexpr std::int64_t kProgramProducts = std::int64_t{1} << 20, kLeastProgramProducts = std::int64_t{1} << 18;
constexpr std::int64_t kMostPrograms = 64, kFewPrograms = 8;
/// What a part of k has at least, of whole rows of b that are streamed, and of anything else.
constexpr std::int64_t kLeastStreamSplit = 128, kLeastSplit = 1024, kSplitStep = 64;
/// Rows of a that a program goes over once for each panel of b stay in the core's own cache.
constexpr std::int64_t kProgramRowBytes = 256 << 10;
/// b is read in whole rows where it has this size, which is more than a core's own cache keeps, and a has few.
constexpr std::int64_t kStreamBytes = 512 << 10, kMostStreamRows = 8;
/// Up to this k the output is most of what moves, and b's rows lie in the nearest cache.
constexpr std::int64_t kShallow = 32;
/// Columns of b from which on reading whole rows of it pays (one thread of a Zen 4, f32, us, so and by blocks: 8x17488
/// times 42 columns 1650 and 210, 100 800 and 470, 400 3630 and 5000; 2 rows by 42 440 and 220, 100 270 and 680).
std::int64_t least_streamed_columns(const MatmulCall& call) {
  return call.n % 16 == 0 ? 32 : call.m <= 4 ? 64 : 256;
}
/// Rows of b from which on the same: fewer lie beside each other in the nearest cache, and are read across, unless they
/// come from memory (as above: 32 rows of 262143 f32 times a vector 1650 and 2900 us, of 60000 190 and 150).
std::int64_t least_streamed_rows(const MatmulCall& call) {
  constexpr std::int64_t kLeastFromMemory = 20;
  const bool stays = common::stays_in_caches(static_cast<double>(call.k * call.n * itemsize_bytes(call.a.dtype)));
  return stays ? kShallow + 1 : kLeastFromMemory;
}
/// Rows of a that are few for a block of registers.
constexpr std::int64_t kFewRows = 16;
/// Up to this k columns of b that are contiguous along it are transposed in registers.
constexpr std::int64_t kMostShallow = 16;
/// Of panels of b in the nearest cache, or in the core's own, that rows of the output are written from one behind the
/// other: where k is shallow, and where the output is more than caches keep. Written in pieces of a panel's width, a
/// page for each row, 48 MB took twice as long (f32 786x40x16000 on one thread: 20 ms).
constexpr std::int64_t kShallowStripBytes = 16 << 10, kStripBytes = 256 << 10;
constexpr std::int64_t kLargeOutputBytes = 24 << 20;
/// Rows that are worth panels of their own.
constexpr std::int64_t kPanelsRows = 256;
/// Rows of a panel of b that is made in any case, and bytes of one that need not be: it lies on the stack.
constexpr std::int64_t kMostDepth = 512, kMostPanelBytes = 256 << 10;

std::int64_t item_bytes(const MatmulCall& call) {
  return itemsize_bytes(call.a.dtype);
}

/// Numbers in a vector register.
std::int64_t lanes_of(const MatmulCall& call, const Target& target) {
  return cpu_vector_bytes(target.features) / item_bytes(call);
}

/// Up to this k vectors lie along n. A matrix times a vector takes them along k before, in registers of half the width
/// (f64 1025x13, one thread of a Zen 4: 8.8 us by squares that are transposed, 4.3 so; with AVX2 2.5 by squares). What
/// a panel of b costs to transpose is shared by the rows of a (one thread of a Zen 3, along k and along n, us: 8x29
/// times (5000x29)' 132 and 56, 8x64 122 and 87, 8x130 204 and 208; 4x29 71 and 40, 4x64 63 and 78).
std::int64_t most_shallow(const MatmulCall& call, const Target& target) {
  constexpr std::int64_t kLeastColumns = 16;  // of a square that is transposed
  if (cpu_vector_bytes(target.features) >= 64) return std::min(call.m, call.n) == 1 ? kMostShallow / 2 : kMostShallow;
  if (call.m == 1 || call.n < kLeastColumns || order_of(call.b) != 1) return kMostShallow;
  return call.m > 4 ? 64 : 32;
}

/// Numbers in the vectors of a sum along k: what is left of k, and the sum of a vector's numbers, weigh less in half of
/// AVX-512's where k is a few of them.
std::int64_t lanes_along_k(const MatmulCall& call, const Target& target) {
  const std::int64_t lanes = lanes_of(call, target);
  const bool is_short = cpu_vector_bytes(target.features) >= 64 && call.k < 4 * lanes;
  return std::min(is_short ? lanes / 2 : lanes, ceil_power_of_two(call.k));
}

/// Rows of a block: `most`, or where there are few as many as divide them into blocks of about the same size.
std::int64_t block_extent(std::int64_t extent, std::int64_t most) {
  return extent >= 4 * most ? most : ceil_div(extent, ceil_div(extent, most));
}

/// Sums are added to every four to eight clocks, and in each clock two are.
std::int64_t unroll_of(std::int64_t sums) {
  return sums >= 8 ? 1 : sums >= 4 ? 2 : 4;
}

/// Whether a is read across, from a line of memory for each of many k, and so often that it had better be packed.
bool is_worth_packing_rows(const MatmulCall& call) {
  return order_of(call.a) != 0 && call.k >= 64 && call.m >= 64 && call.n >= 64;
}

/// Up to this k sums stay in registers from its first to its last. Where blocks are full, matmul_blocked_kernel is
/// faster from 320 on, by a tenth at 400.
std::int64_t most_depth(const MatmulCall& call) {
  constexpr std::int64_t kFullExtent = 24, kMostOfFullBlocks = 320;
  return call.m >= kFullExtent && call.n >= kFullExtent ? kMostOfFullBlocks : kMostDepth;
}

bool is_float_on_cpu(const MatmulCall& call, const Target& target) {
  return !is_cuda(target) && call.a.dtype == call.accumulator && call.b.dtype == call.accumulator &&
         is_floating(call.accumulator) && call.scale_a < 0 && call.m > 0 && call.n > 0;
}

/// Programs that a matrix is worth.
std::int64_t wanted_programs(const MatmulCall& call) {
  // A number that is read or written costs as much as some products.
  const std::int64_t work = call.m * call.n * call.k + 8 * (call.m * call.k + call.k * call.n + call.m * call.n);
  const std::int64_t all = work * call.batches(), few = std::min(all / kLeastProgramProducts, kFewPrograms);
  return std::clamp<std::int64_t>(std::max(all / kProgramProducts, few), 1, kMostPrograms) / call.batches();
}

/// Parts of k where what there is to do would be done by a few programs otherwise. It depends on the call alone, so
/// that sums are the same for any number of threads.
void split_up(const MatmulCall& call, ops::MatmulIteration& it, std::int64_t least = kLeastSplit) {
  const std::int64_t wanted = std::min<std::int64_t>(wanted_programs(call), kFewPrograms);
  const std::int64_t wanted_splits = wanted < kFewPrograms / 2 || it.tiles > wanted / 2 ? 1 : wanted / it.tiles;
  const std::int64_t splits = std::min(wanted_splits, call.k / least);
  if (splits < 2) return;
  // Parts of the same size, so that as many of them as there are threads end together.
  const std::int64_t per_split = ceil_div(ceil_div(call.k, splits), kSplitStep) * kSplitStep;
  it.k_per_split = per_split;
  it.num_splits = ceil_div(call.k, per_split);
}

/// Programs along the rows and the columns of each matrix, for blocks of `rows` x `columns`, and along k. Of rows that
/// are written one behind the other (`writes_rows`) each program has its own.
void deal_out(const MatmulCall& call, std::int64_t rows, std::int64_t columns, bool writes_rows, const Target& target,
              ops::MatmulIteration& it, std::int64_t rows_of_program = 1) {
  const std::int64_t wanted = wanted_programs(call);
  const std::int64_t row_groups = std::max<std::int64_t>(call.m / std::max(rows, rows_of_program), 1);
  const std::int64_t column_groups = std::max<std::int64_t>(call.n / columns, 1);
  const std::int64_t cached = ceil_div(call.m * call.k * item_bytes(call), kProgramRowBytes);
  it.row_blocks =
      std::clamp<std::int64_t>(std::max(cached, writes_rows ? wanted : ceil_div(wanted, column_groups)), 1, row_groups);
  it.column_blocks = std::clamp<std::int64_t>(ceil_div(wanted, it.row_blocks), 1, column_groups);
  it.tiles = it.row_blocks * it.column_blocks * call.batches();
  check_grid(call.op, it.tiles, target);
  split_up(call, it);
}

/// Partial sums lie in rows, whatever out does.
std::int64_t out_order(const MatmulCall& call, const ops::MatmulIteration& it) {
  return it.num_splits == 1 ? order_of(call.out) : 0;
}

/// `arguments` of the kernels of that stem between the first and the flag for batches.
LaunchPlan plan_of(const MatmulCall& call, std::string_view stem, const ops::MatmulIteration& it, const Target& target,
                   const std::vector<TemplateArgument>& arguments) {
  LaunchPlan plan;
  KernelLaunch& launch = plan.launches.emplace_back();
  launch.template_arguments.emplace_back(first_argument(call, {it.num_splits, it.k_per_split}));
  launch.template_arguments.insert(launch.template_arguments.end(), arguments.begin(), arguments.end());
  launch.template_arguments.emplace_back(!call.batch_extents.empty());
  launch.template_arguments.emplace_back(call.a.dtype);
  common::KernelParameters(launch).read(call.a.tensor, call.a.dtype).read(call.b.tensor, call.b.dtype);
  launch.geometry.grid = {it.tiles, it.num_splits, 1};
  end_plan(call, it, target, stem, plan);
  return plan;
}

/// Whether blocks of sums along k are faster than panels of b, whose making few rows do not repay (one thread of a Zen
/// 4, k of 549 to 8192 and 42 to 1000 columns: with AVX-512 16 rows take a third of the time, 32 rows 0.5 to 1, as an
/// AVX2 CPU 16 rows a half and 20 as long). Each block of sums reads its rows to their end: rows that leave a core's
/// own cache before the next block, of matrices that leave the last one, cost twice as much (16x33056 times
/// 33056x172').
bool is_for_sums_along_k(const MatmulCall& call, const Target& target) {
  constexpr std::int64_t kOwnCacheBytes = 1 << 20, kLongDepth = 512;
  const bool is_wide = cpu_vector_bytes(target.features) >= 64;
  const std::int64_t few = std::min(call.m, call.n), many = std::max(call.m, call.n);
  const std::int64_t row_bytes = call.k * item_bytes(call);
  if (few > 4 && few * row_bytes > (is_wide ? 2 : 1) * kOwnCacheBytes &&
      !common::stays_in_caches(static_cast<double>(many * row_bytes)))
    return false;
  if (call.m <= 8 || call.n <= 4) return true;
  return few <= (is_wide ? 32 : 16) && (call.k >= kLongDepth || (is_wide && few <= 16));
}

/// Whether sums of a few rows go through all of b, which is small, or too narrow to be read in whole rows for one (a
/// vector of 148296 f32 times 20 columns, two threads of a Zen 4, us: packed in blocks 680, as an AVX2 CPU 970; 148 and
/// 127 so).
bool is_for_few_rows_of_sums(const MatmulCall& call) {
  const bool is_small = call.k * call.n * item_bytes(call) < kStreamBytes;
  return call.m <= 16 && (is_small || (call.m == 1 && call.n < least_streamed_columns(call)));
}

/// What an operand's lines are filled up to by blocks of `width`.
std::int64_t filled(std::int64_t extent, std::int64_t width) {
  const std::int64_t rest = extent % width;
  return extent - rest + (rest == 0 ? 0 : ceil_power_of_two(rest));
}

/// Sums of two vectors across; of one where AVX-512 has more to do with two, half of which are empty; of four where
/// there are few rows, since each vector of b is then loaded for few products, and of many rows where the result is
/// narrower than a vector. One or two rows take b's rows of up to four vectors whole: piece by piece a long b comes
/// from memory at half the rate (a vector of 53,890 f64 times 25 columns, one thread of a Zen 4: 1380 us, 380 so).
Config outer_config(const MatmulCall& call, const Target& target) {
  const bool is_wide = cpu_vector_bytes(target.features) >= 64;
  const std::int64_t lanes = lanes_of(call, target);
  std::int64_t rows = is_wide ? 8 : 6, vectors = 2;
  if ((call.m <= kFewRows && call.n >= 4 * lanes) || (call.m <= 2 && call.n > 2 * lanes)) {
    rows = is_wide ? 4 : 2;
    vectors = 4;
  } else if (call.n < lanes) {
    rows = 12;
  } else if (is_wide && filled(call.n, lanes) < filled(call.n, 2 * lanes)) {
    vectors = 1;
  }
  return {{"ROWS", rows}, {"VECTORS", vectors}, {"PANEL", call.m >= 64 && call.n >= 16}};
}

LaunchPlan outer_plan(const MatmulCall& call, const Config& config, const Target& target) {
  const std::int64_t lanes = lanes_of(call, target);
  const std::int64_t most_width = config.at("VECTORS") * lanes;
  const std::int64_t rows = block_extent(call.m, config.at("ROWS"));
  const std::int64_t width = std::min(most_width, ceil_power_of_two(call.n));
  const std::int64_t columns = std::min(width, call.n);
  const std::int64_t rest = call.n % columns;
  // A square that is transposed is no wider than a panel, which of f64 is 8 columns by vectors of AVX2.
  const std::int64_t shallow_k = order_of(call.b) == 1 && call.k <= std::min(kMostShallow, width) ? call.k : 0;
  const bool rows_first = order_of(call.b) == 0 && call.k <= kShallow;
  const bool fits_panel = call.k * width * item_bytes(call) <= kMostPanelBytes;
  const bool has_panel = !rows_first && (order_of(call.b) != 0 || (config.at("PANEL") != 0 && fits_panel));
  const bool is_large = !rows_first && shallow_k == 0 && call.k > 0 && fits_panel && call.n > columns &&
                        call.m > rows && call.batches() * call.m * call.n * item_bytes(call) >= kLargeOutputBytes;
  const std::int64_t strip_bytes = shallow_k > 0 ? kShallowStripBytes : is_large ? kStripBytes : 0;
  const std::int64_t depth = has_panel || is_large ? std::max<std::int64_t>(ceil_power_of_two(call.k), 16) : 0;
  ops::MatmulIteration it = make_iteration(call, 1, 1, {1, call.k}, target);
  deal_out(call, rows, columns, strip_bytes > 0 || rows_first, target, it, is_large ? kPanelsRows : 1);
  return plan_of(call, "matmul_outer", it, target,
                 {order_of(call.a), order_of(call.b), out_order(call, it), rows, width, columns,
                  rest == 0 ? 0 : ceil_power_of_two(rest), depth, unroll_of(rows * ceil_div(width, lanes)), shallow_k,
                  strip_bytes, rows_first, it.k_per_split > ops::kPartOfK});
}

LaunchPlan inner_plan(const MatmulCall& call, const Config& config, const Target& target) {
  const std::int64_t lanes = lanes_along_k(call, target);
  const std::int64_t rows = block_extent(call.m, config.at("ROWS"));
  const std::int64_t depth = call.b.row_stride == 1 ? 0 : ceil_power_of_two(call.k);
  const std::int64_t columns = depth > 0 ? call.n : block_extent(call.n, config.at("COLUMNS"));
  ops::MatmulIteration it = make_iteration(call, 1, 1, {1, call.k}, target);
  deal_out(call, rows, columns, false, target, it);
  return plan_of(call, "matmul_inner", it, target,
                 {out_order(call, it), rows, columns, lanes, call.k % lanes, unroll_of(rows * columns), depth,
                  it.k_per_split > ops::kPartOfK * lanes});
}

/// A line of the cache is fetched at a time, by registers of any width.
constexpr std::int64_t kLineBytes = 64;
/// What the sums of a program of matmul_stream_kernel take, and a piece of a row of b at least.
constexpr std::int64_t kStreamSumBytes = 16 << 10, kStreamPieceBytes = 2 << 10;

LaunchPlan stream_plan(const MatmulCall& call, const Config& config, const Target& target) {
  const std::int64_t block_n = config.at("BLOCK_N"), line = kLineBytes / item_bytes(call);
  ops::MatmulIteration it = make_iteration(call, 1, 1, {1, call.k}, target);
  // Threads share parts of k, of which each reads whole rows; where k has none, pieces of rows.
  const bool has_parts = call.k >= 2 * kLeastStreamSplit || call.batches() > 1;
  const std::int64_t pieces =
      has_parts ? 1 : std::clamp<std::int64_t>(call.n * item_bytes(call) / kStreamPieceBytes, 1, 4);
  it.row_blocks = 1;
  it.column_blocks = std::max(ceil_div(call.n, block_n), pieces);
  it.tiles = it.column_blocks * call.batches();
  split_up(call, it, kLeastStreamSplit);
  // What a machine's own fetching ahead leaves to gain, four rows at a time, costs more than it gains where registers
  // are half a line (one thread of a Zen 3, a vector times 1184x5912 f32 and 4095x1689: 0.74 and 0.69 of NumPy's speed
  // in the same run; eight rows 1.09 and 0.98). With registers of a line eight rows took a tenth longer.
  const bool fetches = cpu_vector_bytes(target.features) >= kLineBytes;
  return plan_of(call, "matmul_stream", it, target, {out_order(call, it), call.m, block_n + 2 * line, line, fetches});
}

}  // namespace

Variant stream_variant(const MatmulParser& parse, const KernelSource& source) {
  return common::variant_of<FamilyCall>(
      parse, {.name = "stream",
              .doc = "CPU: few rows times a large matrix, whose rows are read from end to end",
              .source = source,
              .kernel = "kiln::ops::matmul_stream_kernel",
              .serves =
                  [](const FamilyCall& family, const Target& target) {
                    const MatmulCall call = well_read(family.matmul);
                    return is_float_on_cpu(call, target) && order_of(call.b) == 0 && call.m <= kMostStreamRows &&
                           call.k >= least_streamed_rows(call) && call.n >= least_streamed_columns(call) &&
                           call.k * call.n * item_bytes(call) >= kStreamBytes;
                  },
              .space = [](const Target&) { return ConfigSpace{{{"BLOCK_N", {4096, 2048, 1024, 512}}}, {}}; },
              .default_config =
                  [](const FamilyCall& family, const Target&) {
                    const MatmulCall call = well_read(family.matmul);
                    const std::int64_t columns = floor_power_of_two(kStreamSumBytes / item_bytes(call) / call.m);
                    return Config{{"BLOCK_N", std::clamp<std::int64_t>(columns, 512, 4096)}};
                  },
              .plan = [](const FamilyCall& call, const Config& config,
                         const Target& target) { return stream_plan(well_read(call.matmul), config, target); }});
}

Variant outer_variant(const MatmulParser& parse, const KernelSource& source) {
  return common::variant_of<FamilyCall>(
      parse, {.name = "outer",
              .doc = "CPU: blocks of sums in registers from the first k to the last, vectors along n",
              .source = source,
              .kernel = "kiln::ops::matmul_outer_kernel",
              .serves =
                  [](const FamilyCall& family, const Target& target) {
                    const MatmulCall call = well_read(family.matmul);
                    return is_float_on_cpu(call, target) &&
                           ((call.k <= most_depth(call) && !is_worth_packing_rows(call)) ||
                            (order_of(call.b) == 0 && (call.n <= 16 || is_for_few_rows_of_sums(call))));
                  },
              .space =
                  [](const Target&) {
                    return ConfigSpace{{{"ROWS", {6, 8, 12, 4, 2, 1}}, {"VECTORS", {2, 1, 4}}, {"PANEL", {0, 1}}}, {}};
                  },
              .default_config = [](const FamilyCall& family,
                                   const Target& target) { return outer_config(well_read(family.matmul), target); },
              .plan = [](const FamilyCall& call, const Config& config,
                         const Target& target) { return outer_plan(well_read(call.matmul), config, target); }});
}

Variant inner_variant(const MatmulParser& parse, const KernelSource& source) {
  return common::variant_of<FamilyCall>(
      parse,
      {.name = "inner",
       .doc = "CPU: blocks of sums in registers, vectors along k, which is contiguous in both operands or in a alone "
              "where b has few columns",
       .source = source,
       .kernel = "kiln::ops::matmul_inner_kernel",
       .serves =
           [](const FamilyCall& family, const Target& target) {
             const MatmulCall call = well_read(family.matmul);
             return is_float_on_cpu(call, target) && call.a.column_stride == 1 &&
                    (call.b.row_stride == 1 || copies_columns(call)) && call.k > most_shallow(call, target) &&
                    is_for_sums_along_k(call, target);
           },
       .space = [](const Target&) { return ConfigSpace{{{"ROWS", {4, 2, 1, 3}}, {"COLUMNS", {4, 2, 1, 3, 6}}}, {}}; },
       .default_config =
           [](const FamilyCall& family, const Target& target) {
             const MatmulCall call = well_read(family.matmul);
             const bool is_wide = cpu_vector_bytes(target.features) >= 64;
             return Config{{"ROWS", is_wide ? 4 : 2}, {"COLUMNS", call.n >= 6 && (is_wide || call.m <= 2) ? 6 : 4}};
           },
       .plan = [](const FamilyCall& call, const Config& config,
                  const Target& target) { return inner_plan(well_read(call.matmul), config, target); }});
}

}  // namespace kiln::matmul
