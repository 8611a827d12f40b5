#include "ops/reduction/tiling.hpp"

#include <algorithm>
#include <numeric>

#include "ops/common/grid.hpp"

namespace kiln::reduction {
namespace {

/// A program of a split reduction reads at least this much, so that starting it and joining its state cost little.
constexpr std::int64_t kLeastCudaChunkBytes = 16 * 1024;
/// Waits for memory, one for the tiles of a step, that take a GPU's program as long as the second kernel takes that
/// joins parts: 2.5 to 3 us on an H200, of which a wait is 0.7 to 1.
constexpr std::int64_t kStepsOfSecondKernel = 4;
/// Elements of a row that any program of a GPU loads at a time.
constexpr std::int64_t kOneStepElements = 1024;
constexpr std::int64_t kLeastCpuChunkBytes = 128 * 1024;
/// Rows of a chunk whose states are as wide as the rows: what is written of them and read again is to be little.
constexpr std::int64_t kLeastSpanRows = 64;
/// A lane of a CPU program adds up to twice this many elements before lanes are joined, however few the lanes are:
/// roundings of equal elements all go one way, and grow with their number.
constexpr std::int64_t kLaneElements = 2048;
/// Positions inside a chunk are 32 bits wide.
constexpr std::int64_t kMostChunkElements = std::int64_t{1} << 30;
/// Rows are taken as one (fold_of) up to kMostFold of them, where at least kLeastFoldedRows come of it, and up to
/// kMostFoldedColumns, of which the states would be as much as the rows.
constexpr std::int64_t kMostFold = 256, kLeastFoldedRows = 16, kMostFoldedColumns = std::int64_t{1} << 24;
constexpr double kFullEnough = 0.9;
/// Elements along the reduced dimension that a program loads before it looks at the first.
std::int64_t step_of(const CollapsedReduction& collapsed, const Config& config) {
  return config.at("UNROLL") * config.at(collapsed.reduces_rows() ? "BLOCK_N" : "BLOCK_M");
}

}  // namespace

std::int64_t span_of(const CollapsedReduction& collapsed, const Config& config) {
  const std::int64_t* const span = config.find("SPAN");
  const bool can = span != nullptr && !collapsed.reduces_rows() && config.at("BLOCK_M") == 1 &&
                   collapsed.kept[0].extent >= config.at("BLOCK_N");
  return can ? *span : 1;
}

std::int64_t kept_block_of(const CollapsedReduction& collapsed, const Config& config) {
  return collapsed.reduces_rows() ? config.at("BLOCK_M") : config.at("BLOCK_N") * span_of(collapsed, config);
}

bool is_short(const CollapsedReduction& collapsed, const Config& config) {
  const std::int64_t extent = std::max<std::int64_t>(collapsed.reduced[0].extent, 1);
  return ceil_div(extent, step_of(collapsed, config)) * (collapsed.reduced_total / extent) <= kStepsOfSecondKernel;
}

bool gains_by_spreading(const CollapsedReduction& in_order) {
  if (in_order.reduced.size() == 1) return false;
  const std::int64_t row = in_order.reduced[0].extent;
  return ceil_div(row, kOneStepElements) * (in_order.reduced_total / row) > kStepsOfSecondKernel;
}

Split split_of(const CollapsedReduction& collapsed, const Config& config, std::int64_t itemsize, const Target& target) {
  const std::int64_t extent = collapsed.reduced[0].extent;
  const std::int64_t outer = extent == 0 ? 1 : collapsed.reduced_total / extent;
  const std::int64_t step = step_of(collapsed, config);
  Split split{1, std::max<std::int64_t>(extent, 1), 1, outer};
  if (extent == 0) return split;

  // What one program reads per reduced element is the width of its block of kept ones.
  const std::int64_t block = kept_block_of(collapsed, config);
  const std::int64_t programs = std::max<std::int64_t>(kept_programs(collapsed, block), 1);
  const std::int64_t width_bytes = std::clamp<std::int64_t>(collapsed.kept[0].extent, 1, block) * itemsize;
  std::int64_t least = ceil_div(is_cuda(target) ? kLeastCudaChunkBytes : kLeastCpuChunkBytes, width_bytes);
  if (!is_cuda(target) && collapsed.reduces_rows()) least = std::min(least, kLaneElements * config.at("BLOCK_N"));
  if (span_of(collapsed, config) > 1) least = std::max(least, kLeastSpanRows);
  std::int64_t wanted = std::min(ceil_div(config.at("PROGRAMS"), programs), collapsed.reduced_total / least);
  if (is_cuda(target) && is_short(collapsed, config)) wanted = 1;
  // Of columns a lane adds up every BLOCK_M-th element, however many programs there are already.
  if (!is_cuda(target) && !collapsed.reduces_rows())
    wanted = std::max(wanted, ceil_div(collapsed.reduced_total, kLaneElements * config.at("BLOCK_M")));
  wanted = std::clamp<std::int64_t>(wanted, 1, kMostGridExtent);

  split.outer_per_group = ceil_div(outer, std::min(outer, wanted));
  if (outer > 1)
    split.outer_per_group = std::clamp<std::int64_t>(kMostChunkElements / extent, 1, split.outer_per_group);
  split.groups = ceil_div(outer, split.outer_per_group);
  const std::int64_t pieces = std::max(wanted / split.groups, ceil_div(extent, kMostChunkElements));
  split.piece_extent = ceil_div(ceil_div(extent, pieces), step) * step;
  split.pieces = ceil_div(extent, split.piece_extent);
  return split;
}

std::int64_t kept_programs(const CollapsedReduction& collapsed, std::int64_t kept_block) {
  const std::int64_t extent = collapsed.kept[0].extent;
  return extent == 0 ? 0 : ceil_div(extent, kept_block) * (collapsed.kept_total / extent);
}

bool moves_packets(const CollapsedReduction& collapsed, std::int64_t block_m, std::int64_t itemsize) {
  const auto is_multiple = [width = kAccessBytes / itemsize](const CollapsedDim& dim) {
    return dim.strides[kInput] % width == 0;
  };
  if (!collapsed.has_dense_columns()) return false;
  if (collapsed.reduces_rows()) return block_m == 1 || is_multiple(collapsed.kept[0]);
  return std::all_of(collapsed.kept.begin() + 1, collapsed.kept.end(), is_multiple) &&
         std::all_of(collapsed.reduced.begin(), collapsed.reduced.end(), is_multiple);
}

std::int64_t fold_of(const CollapsedReduction& collapsed, std::int64_t block_n, std::int64_t itemsize) {
  const std::int64_t columns = collapsed.kept[0].extent, rows = collapsed.reduced[0].extent;
  const std::int64_t width = kAccessBytes / itemsize;
  if (collapsed.reduces_rows() || collapsed.reduced.size() > 1 || collapsed.kept[0].strides[kInput] != 1 ||
      collapsed.reduced[0].strides[kInput] != columns || columns >= kMostFoldedColumns)
    return 1;
  for (std::size_t d = 1; d < collapsed.kept.size(); ++d)
    if (collapsed.kept[d].strides[kInput] % width != 0) return 1;
  const auto fullness = [&](std::int64_t fold) {
    return static_cast<double>(columns * fold) / static_cast<double>(ceil_div(columns * fold, block_n) * block_n);
  };
  const std::int64_t step = width / std::gcd(columns, width), most = rows / kLeastFoldedRows;
  if (step == 1 && fullness(1) >= kFullEnough) return 1;
  std::int64_t best = 1;
  for (std::int64_t fold = step; fold <= most && fold <= kMostFold; fold += step) {
    if (best == 1 || fullness(fold) > fullness(best)) best = fold;
    if (fullness(best) >= kFullEnough) break;
  }
  return best;
}

CollapsedReduction folded_by(const CollapsedReduction& collapsed, std::int64_t fold) {
  if (fold == 1) return collapsed;
  CollapsedReduction result = collapsed;
  result.kept[0].extent *= fold;
  result.kept_total *= fold;
  result.reduced[0].extent = ceil_div(collapsed.reduced[0].extent, fold);
  result.reduced[0].strides[kInput] *= fold;
  result.reduced_total = result.reduced[0].extent;
  return result;
}

}  // namespace kiln::reduction
