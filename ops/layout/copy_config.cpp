#include "ops/layout/copy_config.hpp"

#include <algorithm>

#include "ops/common/block_choice.hpp"
#include "ops/common/config_expression.hpp"
#include "ops/common/cpu_choice.hpp"
#include "ops/common/grid.hpp"

namespace kiln::layout {
namespace {

/// Bytes that a transposing GPU program holds: 16 words of 4 bytes for each of 256 threads, which keeps some 60 KB in
/// flight on a multiprocessor beside the shared memory that it takes.
constexpr std::int64_t kTransposedTileBytes = 16 * 1024;
constexpr std::int64_t kLeastTileBytes = 4 * 1024;
/// The same of an interleaving one, of lanes that go along columns.
constexpr std::int64_t kInterleavedTileBytes = 16 * 1024, kLeastInterleavedTileBytes = 2 * 1024;
constexpr std::int64_t kLanes = 32;
/// Columns of a transposing tile of a call of few rounds: more of them, of shorter rows.
constexpr std::int64_t kColumnsOfFewRounds = 64;
static_assert(kInterleavedTileBytes >= kLanes * kMostInterleavedBytes &&
              kLeastInterleavedTileBytes >= kMostInterleavedBytes);
constexpr std::int64_t kTransposedWarps = 8;
/// From here on there are enough programs for tiles of twice the size.
constexpr std::int64_t kManyBytes = 64 << 20;
/// Of an H200.
constexpr std::int64_t kProcessors = 132;
constexpr std::int64_t kStridedWarps = 4;
constexpr std::int64_t kContiguousWarps = 2;
constexpr std::int64_t kMostBytesPerThread = 128;

/// Elements of a program that accesses them one by one: eight for each thread, bytes 16.
std::int64_t single_elements(std::int64_t bytes) {
  return bytes == 1 ? 2048 : 1024;
}

/// Two elements at least.
std::int64_t block_over(std::int64_t extent, std::int64_t least, std::int64_t most) {
  return common::block_over(std::max<std::int64_t>(extent, 2), {.least = least, .most = most});
}

ops::CopyIteration whole(const Copy& copy) {
  return copy_iteration(copy, 1, 1);
}

Config transposed_default(const Copy& copy, const Target& target) {
  const ops::CopyIteration extents = whole(copy);
  // Measured on two cores: 4096^2 f32 takes as long as a plain copy, and this block is the best of bf16 and i8 too.
  if (!is_cuda(target)) return {{"BLOCK_M", 128}, {"BLOCK_N", 32}};
  const std::int64_t rows = extents.columns;  // the output's dense dimension
  const std::int64_t columns = ceil_power_of_two(extents.rows);
  const std::int64_t size = widest_bytes(copy);
  const bool casts = copy.out_dtype != copy.in_dtype;
  // Rows of the output that start within a sector: tiles write a sector less of each than they bring in.
  const bool seams = !casts && !steps_by(copy, ops::kCopyOut, kSectorBytes);
  std::int64_t tile_bytes = kTransposedTileBytes, num_warps = kTransposedWarps;
  // Larger tiles on an H200: 16384^2 bf16 3.91 -> 4.06 TB/s, i8 3.82 -> 3.91, f32 4.05 -> 4.10, 10007x9973 f32 3.80
  // -> 3.87. Misaligned narrow types have more in registers, and lose by it.
  const bool aligned = !seams && steps_by(copy, ops::kCopyIn, 4);
  if (!casts && (size >= 4 || aligned) && copy.walk.numel * size >= kManyBytes) {
    tile_bytes *= 2;
    if (size > 1) num_warps *= 2;
  }
  // Lines of 128 bytes or more on both sides; with seams, where those of 256 took up to 1.7 times as long (63x158731
  // f32 53 -> 32 us on an H200).
  const std::int64_t wanted = ceil_power_of_two(rows * size + (seams ? kSectorBytes : 0));
  const std::int64_t most = size == 1 || seams ? 128 : 256;
  std::int64_t row_bytes = std::clamp<std::int64_t>(wanted, 16, most);
  while (tile_bytes / row_bytes > columns && row_bytes < std::min<std::int64_t>(wanted, 2048)) row_bytes *= 2;
  while (tile_bytes > kLeastTileBytes && tile_bytes / row_bytes > columns) {
    tile_bytes /= 2;
    num_warps = std::min(num_warps, tile_bytes * kTransposedWarps / kTransposedTileBytes);
  }
  // A call of few rounds: half of the code, and less for each thread to wait for (515x1941 f32 8.0 -> 7.4 us on an
  // H200, 48x120 5.4 -> 4.3).
  while (tile_bytes > kLeastTileBytes && copy.walk.numel * size < 4 * kProcessors * tile_bytes) {
    tile_bytes /= 2;
    num_warps = std::min<std::int64_t>(num_warps, 4);
    row_bytes = std::min(row_bytes, tile_bytes / (columns < kLanes ? columns : kColumnsOfFewRounds));
  }
  return {{"TILE_BYTES", tile_bytes}, {"ROW_BYTES", row_bytes}, {"SEAM_BYTES", kSectorBytes}, {"num_warps", num_warps}};
}

/// More warps hide the wait of few programs, fewer leave each thread of many programs more to wait for at once: 2-byte
/// elements of 17 rows take 48 us in 8 warps, 39 in 4 (H200; 127x730 f32 6.8 in 8, 5.6 in 16; 8x131064 bf16 9.7 with
/// 256 bytes to a warp, 7.3 with these). A tile has columns of one matrix alone.
Config interleaved_default(const Copy& copy) {
  constexpr std::int64_t kWarpBytes = 1024;
  const ops::CopyIteration extents = whole(copy);
  const std::int64_t size = itemsize_bytes(copy.out_dtype), bytes = copy.walk.numel * size;
  const std::int64_t row_bytes = ceil_power_of_two(extents.columns * size);
  const std::int64_t needed_bytes = row_bytes * ceil_power_of_two(extents.rows);
  std::int64_t tile_bytes = kInterleavedTileBytes;
  while (tile_bytes > kLeastInterleavedTileBytes &&
         (tile_bytes >= 2 * needed_bytes || (tile_bytes > kLanes * row_bytes && bytes < 2 * kProcessors * tile_bytes)))
    tile_bytes /= 2;
  const bool is_full = tile_bytes == kInterleavedTileBytes;
  return {{"TILE_BYTES", tile_bytes},
          {"num_warps", size == 2 && is_full ? 4 : std::clamp<std::int64_t>(tile_bytes / kWarpBytes, 4, 16)}};
}

Config strided_cuda_default(std::int64_t itemsize, std::int64_t rows, std::int64_t columns, std::int64_t elements,
                            std::int64_t most_columns) {
  const std::int64_t least_columns = 16 * (16 / itemsize);
  const std::int64_t block_n = block_over(columns, least_columns, std::min(most_columns, elements));
  std::int64_t block_m =
      std::clamp<std::int64_t>(elements / block_n, 1, std::min<std::int64_t>(ceil_power_of_two(rows), 1024));
  std::int64_t num_warps = kStridedWarps;
  while (num_warps > 1 && block_m * block_n < 32 * num_warps) num_warps /= 2;
  while (block_m * block_n < 32) block_m *= 2;
  return {{"BLOCK_M", block_m}, {"BLOCK_N", block_n}, {"num_warps", num_warps}};
}

/// Whether the output is worth sending past the caches.
bool streams(const Copy& copy, std::int64_t row_elements) {
  return row_elements * itemsize_bytes(copy.out_dtype) >= 8 * common::kLineBytes &&
         common::outgrows_caches(static_cast<double>(copy.walk.numel) *
                                 static_cast<double>(itemsize_bytes(copy.out_dtype) + itemsize_bytes(copy.in_dtype)));
}

/// With AVX2, rows that are dense on both sides: short ones some at a time, in pieces that most of them are whole of
/// rather than under masks, and numbers of 8 and 16 bits by sixteens, which are converted or moved together (one thread
/// of a Zen 3, us, 400,000 elements of rows off their neighbours: 17 columns of u8 1396 -> 140, of i16 307 -> 120, of
/// f64 215 -> 148, 6 of f32 322 -> 121; i16 to f32, 1000 columns 172 -> 55). 0 where rows go one at a time by vectors.
common::ProgramExtents dense_cpu_tile(const Copy& copy, const ops::CopyIteration& extents, std::int64_t lanes) {
  constexpr std::int64_t kLeastRows = 8, kFewColumns = 8, kShortRow = 48, kShortNarrowRow = 128, kNarrowTile = 16;
  const bool is_narrow = std::min(itemsize_bytes(copy.out_dtype), itemsize_bytes(copy.in_dtype)) <= 2;
  if (extents.rows >= kLeastRows && extents.columns < (is_narrow ? kShortNarrowRow : kShortRow) &&
      extents.columns % (is_narrow ? kNarrowTile : lanes) != 0)
    return {4, extents.columns < kFewColumns ? 2 : 4};
  if (is_narrow && extents.columns >= kNarrowTile) return {1, kNarrowTile};
  return {0, 0};
}

/// Rows one at a time, a vector at a time, or some lines where they go past the caches.
Config strided_cpu_default(const Copy& copy, const ops::CopyIteration& extents, const Target& target) {
  const std::int64_t itemsize = itemsize_bytes(copy.out_dtype);
  const std::int64_t lanes = std::max<std::int64_t>(common::vector_register_bytes(target) / widest_bytes(copy), 8);
  const bool is_streamed = extents.column_strides[ops::kCopyOut] == 1 && streams(copy, extents.columns);
  const std::int64_t streamed =
      std::clamp(floor_power_of_two(extents.columns * itemsize / 16), common::kLineBytes, common::kStreamedBytes) /
      itemsize;
  const std::int64_t block_n =
      is_streamed ? streamed : std::min(lanes, ceil_power_of_two(std::max<std::int64_t>(extents.columns, 2)));
  const bool is_dense = extents.column_strides[ops::kCopyOut] == 1 && extents.column_strides[ops::kCopyIn] == 1;
  if (!is_streamed && is_dense && common::vector_register_bytes(target) < 64)
    if (const auto [rows, columns] = dense_cpu_tile(copy, extents, lanes); rows > 0)
      return {{"BLOCK_M", rows}, {"BLOCK_N", columns}, {"STREAM", 0}};
  return {{"BLOCK_M", 1}, {"BLOCK_N", block_n}, {"STREAM", is_streamed ? 1 : 0}};
}

Config strided_default(const Copy& copy, const Target& target) {
  const ops::CopyIteration extents = whole(copy);
  if (!is_cuda(target)) return strided_cpu_default(copy, extents, target);
  const std::int64_t itemsize = widest_bytes(copy);
  // An input that is dense along the rows: a tile long both ways uses the whole of its lines. Of few rows it has more
  // columns, where programs enough are left: a multiprocessor begins one every 80 ns, and one of 64 elements
  // (753424x2 of f16: 18 us on an H200) is over before.
  if (extents.row_strides[ops::kCopyIn] == 1 && extents.column_strides[ops::kCopyIn] != 1) {
    const std::int64_t single = common::elements_of_few_programs(copy.walk.numel, single_elements(itemsize));
    const std::int64_t most_columns =
        std::min(floor_power_of_two(std::max<std::int64_t>(extents.columns / (2 * kProcessors), 1)),
                 single / ceil_power_of_two(extents.rows));
    return strided_cuda_default(itemsize, extents.rows, extents.columns, single,
                                std::max<std::int64_t>(most_columns, 32));
  }
  Config wide = dense_rows_config(itemsize, extents.rows, extents.columns, true);
  const std::int64_t block_m = wide.at("BLOCK_M"), block_n = wide.at("BLOCK_N");
  if (vector_width(copy, copy_iteration(copy, block_m, block_n), block_m, block_n) > 1) return wide;
  return dense_rows_config(itemsize, extents.rows, extents.columns, false);
}

using common::ConfigExpression;

ConfigSpace linear_space(CopyKind kind, const Target& target) {
  if (!is_cuda(target)) {
    if (kind == CopyKind::indexed) return {{{"BLOCK_SIZE", {64, 128, 256}}}, {}};
    return {{{"BLOCK_SIZE", {64, 128, 256}}, {"STREAM", {0, 1}}}, {}};
  }
  const ConfigExpression block("BLOCK_SIZE"), warps("num_warps");
  return {{{"BLOCK_SIZE", {1024, 512, 2048, 256, 4096, 128, 64}}, {"num_warps", {4, 2, 8, 1}}},
          {block >= 32 * warps, block <= 1024 * warps}};
}

ConfigSpace strided_space(const Target& target) {
  if (!is_cuda(target))
    return {{{"BLOCK_M", {1, 4, 16}}, {"BLOCK_N", {16, 64, 128, 32, 8, 4, 2, 256}}, {"STREAM", {0, 1}}},
            {ConfigExpression("BLOCK_M") * "BLOCK_N" <= 256, ConfigExpression("STREAM") * "BLOCK_M" <= 1}};
  const ConfigExpression tile = ConfigExpression("BLOCK_M") * "BLOCK_N", warps("num_warps");
  return {{{"BLOCK_M", {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024}},
           {"BLOCK_N", {1024, 512, 2048, 256, 128, 64, 32, 16, 8, 4, 2, 4096}},
           {"num_warps", {4, 8, 2, 16, 1}}},
          {tile >= 32 * warps, tile <= 1024 * warps, tile <= 8192}};
}

ConfigSpace interleaved_space() {
  return {{{"TILE_BYTES",
            {kInterleavedTileBytes, 2 * kInterleavedTileBytes, kInterleavedTileBytes / 2, kInterleavedTileBytes / 4,
             kLeastInterleavedTileBytes}},
           {"num_warps", {8, 4, 16}}},
          {}};
}

ConfigSpace transposed_space(const Target& target) {
  if (!is_cuda(target)) return {{{"BLOCK_M", {128, 64, 32, 16}}, {"BLOCK_N", {32, 64, 16, 128}}}, {}};
  const ConfigExpression tile("TILE_BYTES"), row("ROW_BYTES"), warps("num_warps");
  return {{{"TILE_BYTES", {kTransposedTileBytes, 2 * kTransposedTileBytes, kTransposedTileBytes / 2, kLeastTileBytes}},
           {"ROW_BYTES", {256, 128, 64, 512, 1024, 32, 16, 2048}},
           {"SEAM_BYTES", {kSectorBytes, 64, 128}},
           {"num_warps", {8, 4, 16, 2}}},
          {tile <= (32 * kMostBytesPerThread) * warps, tile >= 8 * row}};
}

}  // namespace

Config dense_rows_config(std::int64_t itemsize, std::int64_t rows, std::int64_t columns, bool is_wide) {
  // Two 16-byte accesses for each thread where they can be that wide.
  const std::int64_t elements = is_wide ? 2 * (16 / itemsize) * 32 * kStridedWarps : single_elements(itemsize);
  return strided_cuda_default(itemsize, rows, columns, elements, elements);
}

ConfigSpace config_space(CopyKind kind, const Target& target) {
  if (kind == CopyKind::interleaved) return interleaved_space();
  if (kind == CopyKind::transposed) return transposed_space(target);
  if (kind == CopyKind::strided) return strided_space(target);
  return linear_space(kind, target);
}

Config default_config(CopyKind kind, const Copy& copy, const Target& target) {
  if (kind == CopyKind::interleaved) return interleaved_default(copy);
  if (kind == CopyKind::transposed) return transposed_default(copy, target);
  if (kind == CopyKind::strided) return strided_default(copy, target);
  if (!is_cuda(target)) {
    if (kind == CopyKind::indexed) return {{"BLOCK_SIZE", 64}};
    if (!streams(copy, copy.walk.numel)) return {{"BLOCK_SIZE", widest_bytes(copy) == 8 ? 64 : 128}, {"STREAM", 0}};
    const std::int64_t block = common::kStreamedBytes / itemsize_bytes(copy.out_dtype);
    return {{"BLOCK_SIZE", std::clamp<std::int64_t>(block, 64, 256)}, {"STREAM", 1}};
  }
  if (kind == CopyKind::indexed) return {{"BLOCK_SIZE", 512}, {"num_warps", 4}};
  // 32 bytes of the wider operand for each thread.
  return {{"BLOCK_SIZE", 32 / widest_bytes(copy) * 32 * kContiguousWarps}, {"num_warps", kContiguousWarps}};
}

}  // namespace kiln::layout
