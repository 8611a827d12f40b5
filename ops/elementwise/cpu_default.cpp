#include "ops/elementwise/cpu_default.hpp"

#include <algorithm>

#include "ops/common/cpu_choice.hpp"
#include "ops/common/grid.hpp"

namespace kiln::elementwise {
namespace {

/// Lines of cache that a row must have for its whole ones to be most of it.
constexpr std::int64_t kStreamingRowLines = 8;
/// Rows and columns from which on a CPU's tile that is long both ways is not mostly empty.
constexpr std::int64_t kLeastSquare = 8;

/// An input of `most_bytes` to a number or fewer; of 8 or 16 bits a line of cache holds many.
bool has_narrow_input(const ElementwiseCall& call, std::int64_t most_bytes = 2) {
  return std::any_of(call.inputs.begin(), call.inputs.end(),
                     [&](const TensorView& input) { return itemsize_bytes(input.dtype) <= most_bytes; });
}

/// Whether masks are vectors that are made one by one, as AVX2's are.
bool makes_masks(const Target& target) {
  return common::vector_register_bytes(target) < 64;
}

/// A CPU's tile where an input is read across: vectors along the rows of the output, and of a few of them at a time,
/// whose number of a line of the other side that is fetched once. (One thread of a Zen 4, f32, us, in tiles of 16 x 8 /
/// as here: 12 x 32768 642 / 187, 145 x 5063 1463 / 402; as an AVX2 CPU 579 / 123 and 359 / 239. Rows that are a power
/// of two of bytes apart lie in few places of the caches, and want taller tiles: 1024^2 as an AVX2 CPU takes 1145 in 4
/// x 8, 631 in 8 x 8.)
common::ProgramExtents transposing_tile(const ElementwiseCall& call, std::int64_t rows, std::int64_t columns,
                                        const Target& target) {
  constexpr std::int64_t kManyRows = 64;
  const std::int64_t compute_bytes = itemsize_bytes(call.types.compute);
  // Few columns: vectors of rows that are contiguous on one side.
  if (columns < 4 * kLeastSquare)
    return {common::kLineBytes / std::max<std::int64_t>(compute_bytes, 4), columns <= 2 ? 2 : 4};
  if (has_narrow_input(call)) return {16, 8};
  if (rows >= kManyRows) return {8, 8};
  return {4, std::max<std::int64_t>(common::vector_register_bytes(target) / compute_bytes, 8)};
}

/// Whether rows of so many numbers of 4 or 8 bytes are better taken four at a time, in pieces that most of them are
/// whole of, than one at a time under a mask: with AVX2, whose masks are vectors to be made, or where one number stands
/// for a row (f32, one thread of a Zen 4, us: 50,000 rows of 6 times a column 269 / 97, of 20 407 / 150; as an AVX2 CPU
/// 284 / 100, rows of 12 times rows of 12, of 15 each in memory, 293 / 104).
bool takes_rows_together(const ElementwiseCall& call, const ops::StridedIteration& whole, const Target& target) {
  const bool has_column = std::any_of(whole.column_strides + 1, whole.column_strides + call.walk.num_operands,
                                      [](long long stride) { return stride == 0; });
  return whole.rows >= kLeastSquare && whole.columns < 5 * kLeastSquare && whole.columns % kLeastSquare != 0 &&
         (has_column || makes_masks(target)) && !has_narrow_input(call) && itemsize_bytes(call.output.dtype) >= 4;
}

/// The same of rows whose results are bytes of wider numbers, in pieces that are converted together; with AVX2 (one
/// thread of a Zen 3, us, lt: i32 65536x15 by a column one row of 16 at a time 1850 to 2230, 8 x 4 440; f32 77587x11 by
/// a row 2400 and 310; 84 calls of 2 to 130 columns 1.9 times as fast).
bool takes_pieces_of_bytes(const ElementwiseCall& call, const ops::StridedIteration& whole, const Target& target) {
  return makes_masks(target) && !has_narrow_input(call) && whole.rows >= kLeastSquare && whole.columns > 2 &&
         whole.columns < 12 * kLeastSquare && whole.columns % (2 * kLeastSquare) != 0;
}

/// The same of rows of 8 or 16 bits, whose ends under masks cost several times as much as all of the rest (us, 300,000
/// elements: largest of u8 by a row of 17 1336 -> 147, of 100 260 -> 50, of f16 of 60 1958 -> 68; sum of i16 by a
/// column, 24, 477 -> 35).
bool takes_narrow_pieces(const ElementwiseCall& call, const ops::StridedIteration& whole, const Target& target) {
  const std::int64_t most_columns = (has_narrow_input(call, 1) ? 64 : 16) * kLeastSquare;
  return makes_masks(target) && has_narrow_input(call) && whole.rows >= kLeastSquare && whole.columns > 2 &&
         whole.columns < most_columns && whole.columns % (4 * kLeastSquare) != 0;
}

}  // namespace

std::int64_t cpu_block(const ElementwiseCall& call, const Target& target) {
  constexpr std::int64_t kMostElements = 64, kMostBytes = 256, kVectors = 8;
  if (itemsize_bytes(call.output.dtype) == 1) return kMostElements;
  const std::int64_t bytes = std::min(kMostBytes, kVectors * common::vector_register_bytes(target));
  return std::min(kMostElements, bytes / itemsize_bytes(call.types.compute));
}

std::int64_t streamed_elements(const ElementwiseCall& call) {
  const std::int64_t itemsize = itemsize_bytes(call.output.dtype);
  return std::max(common::kStreamedBytes / std::max(itemsize, itemsize_bytes(call.types.compute)),
                  common::kLineBytes / itemsize);
}

bool is_transposing(const ops::StridedIteration& iteration, int num_operands) {
  for (int o = 1; o < num_operands; ++o) {
    const auto is_dense = [](long long stride) { return stride == 1 || stride == -1; };
    if (is_dense(iteration.row_strides[o]) && !is_dense(iteration.column_strides[o]) &&
        iteration.column_strides[o] != 0)
      return true;
  }
  return false;
}

Config cpu_tile_default(const ElementwiseCall& call, const ops::StridedIteration& whole, const Target& target) {
  const bool is_narrowed = itemsize_bytes(call.output.dtype) == 1 && itemsize_bytes(call.types.compute) > 1;
  // Numbers of 8 and 16 bits that become wider ones are converted by eights where AVX2 has as many at once: f16's
  // largest of 1000 columns by 8 1500, by 32 64.
  const bool is_widened = makes_masks(target) && has_narrow_input(call) && itemsize_bytes(call.types.compute) > 2;
  const std::int64_t lanes =
      is_narrowed || is_widened
          ? 32
          : std::max<std::int64_t>(common::vector_register_bytes(target) / itemsize_bytes(call.types.compute), 8);
  std::int64_t block_m = 1, block_n = std::min(lanes, ceil_power_of_two(std::max<std::int64_t>(whole.columns, 2)));
  if (is_transposing(whole, call.walk.num_operands) && whole.rows >= kLeastSquare) {
    const common::ProgramExtents tile = transposing_tile(call, whole.rows, whole.columns, target);
    block_m = tile.rows, block_n = tile.columns;
  } else if (takes_narrow_pieces(call, whole, target)) {
    block_m = whole.columns < 5 * kLeastSquare ? 16 : 8, block_n = 4;
  } else if (takes_rows_together(call, whole, target)) {
    block_m = 4;
    block_n = whole.columns % 4 == 0 || whole.columns > 2 * kLeastSquare ? 4 : 2;
  } else if (is_narrowed && takes_pieces_of_bytes(call, whole, target)) {
    const bool is_short = whole.columns < 4 * kLeastSquare;
    block_m = is_short ? 8 : 4;
    block_n = is_short ? 4 : 8;
  }
  const std::int64_t itemsize = itemsize_bytes(call.output.dtype);
  const std::int64_t row_bytes = whole.columns * itemsize;
  const bool streams = block_m == 1 && whole.column_strides[0] == 1 &&
                       row_bytes >= kStreamingRowLines * common::kLineBytes &&
                       common::outgrows_caches(call.stored_bytes);
  if (streams)  // as many lines at a time as leave most of a row to whole tiles
    block_n = std::clamp(floor_power_of_two(row_bytes / 16) / itemsize, common::kLineBytes / itemsize,
                         streamed_elements(call));
  return {{"BLOCK_M", block_m}, {"BLOCK_N", block_n}, {"STREAM", streams ? 1 : 0}};
}

}  // namespace kiln::elementwise
