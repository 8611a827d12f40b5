#pragma once

#include <kiln/tl.hpp>

#include "compiler/tl/dot.hpp"
#include "compiler/tl/pipeline.hpp"
#include "ops/matmul/kernel_output.hpp"

namespace kiln::ops {

#if defined(KILN_TARGET_CUDA)
/// Programs of 8 warps that fit in pairs: 64 words of accumulator and few operands to a thread.
template <typename T, bool kTf32, int BLOCK_M, int BLOCK_N>
inline constexpr bool kInPairs = tl::kNumWarps == 8 && BLOCK_M * BLOCK_N * sizeof(tl::dot_sum_t<T>) <= 64 * 256 * 4 &&
                                 (kTf32 || !tl::is_same<T, float>) && sizeof(T) > 1;
#endif

/// The product of a tile's rows of a and columns of b, from k_begin to k_end.
template <tl::DotPrecision kPrecision, int kAOrder, int kBOrder, int BLOCK_M, int BLOCK_N, int BLOCK_K, int NUM_STAGES,
          typename A, typename B>
KILN_DEVICE auto multiply_tile(const A* a, const B* b, const MatmulIteration& it, const MatmulPlace& place,
                               tl::int64_t k_begin, tl::int64_t k_end) {
  const auto rows = tl::expand_dims<1>(tl::arange<BLOCK_M>());
  const auto columns = tl::expand_dims<0>(tl::arange<BLOCK_N>());
  const auto a_inner = tl::expand_dims<0>(tl::arange<BLOCK_K>());
  const auto b_inner = tl::expand_dims<1>(tl::arange<BLOCK_K>());
  const tl::int64_t a_k_stride = kAOrder == kColumnsContiguous ? 1 : it.column_strides[kMatmulA];
  const tl::int64_t b_k_stride = kBOrder == kRowsContiguous ? 1 : it.row_strides[kMatmulB];
  const A* const a_first =
      a + place.batch_offsets[kMatmulA] + place.row * it.row_strides[kMatmulA] + k_begin * a_k_stride;
  const B* const b_first =
      b + place.batch_offsets[kMatmulB] + place.column * it.column_strides[kMatmulB] + k_begin * b_k_stride;
  const auto a_offsets = matrix_offsets<kAOrder>(rows, a_inner, it.row_strides[kMatmulA], a_k_stride);
  const auto b_offsets = matrix_offsets<kBOrder>(b_inner, columns, b_k_stride, it.column_strides[kMatmulB]);
  const auto row_mask = rows < it.m - place.row;
  const auto column_mask = columns < it.n - place.column;
  const tl::int64_t length = k_end - k_begin;

  constexpr bool kTurns = tl::is_same<A, float> && kPrecision == tl::DotPrecision::ieee;
  constexpr tl::TileLines kALines = kTurns ? tl::TileLines::columns : tl::TileLines::as_in_memory;
  constexpr tl::TileLines kBLines = kTurns ? tl::TileLines::rows : tl::TileLines::as_in_memory;
  auto acc = tl::dot_accumulator<A, BLOCK_M, BLOCK_N, kPrecision>();
  tl::pipeline<NUM_STAGES>(
      (length + BLOCK_K - 1) / BLOCK_K,
      [&](tl::int64_t step) {
        const tl::int64_t begin = step * BLOCK_K;
        return tl::Tuple{
            tl::deferred_load<kALines>(a_first + begin * a_k_stride + a_offsets, row_mask & (a_inner < length - begin)),
            tl::deferred_load<kBLines>(b_first + begin * b_k_stride + b_offsets,
                                       (b_inner < length - begin) & column_mask)};
      },
      [&](const auto& a_tile, const auto& b_tile) { acc = tl::dot<kPrecision>(a_tile, b_tile, acc); });
  if constexpr (kTurns)  // by multiply-adds: see dot_wait
    return tl::dot_wait(acc);
  else
    return acc;
}

/// One part of k of one tile, or one tile after the other where the grid has fewer programs than there are tiles.
template <typename Epilogue, tl::DotPrecision kPrecision, int kAOrder, int kBOrder, int kOutOrder, int BLOCK_M,
          int BLOCK_N, int BLOCK_K, int NUM_STAGES, int GROUP_M, bool kHasBatch, bool kHasManyTiles, typename A,
          typename B, typename Addend, typename Out>
KILN_DEVICE void multiply_and_finish(const Epilogue& epilogue, const A* a, const B* b, const Addend* addend, Out* out,
                                     const MatmulIteration& it) {
  const tl::int64_t split = tl::program_id(1);
  const tl::int64_t k_begin = split * it.k_per_split;
  const tl::int64_t k_end = k_begin + it.k_per_split < it.k ? k_begin + it.k_per_split : it.k;
  const auto run = [&](tl::int64_t tile) {
    const MatmulPlace place = matmul_place<BLOCK_M, BLOCK_N, GROUP_M, kHasBatch>(it, static_cast<ProgramNumber>(tile));
    const auto acc = multiply_tile<kPrecision, kAOrder, kBOrder, BLOCK_M, BLOCK_N, BLOCK_K, NUM_STAGES>(a, b, it, place,
                                                                                                        k_begin, k_end);
    finish_tile<kOutOrder>(epilogue, acc, it, place, addend, out + split * it.split_stride);
  };
  if constexpr (kHasManyTiles) {
    KILN_NO_UNROLL for (tl::int64_t tile = tl::program_id(0); tile < it.tiles; tile += tl::num_programs(0)) run(tile);
  } else {
    run(tl::program_id(0));
  }
}

template <typename Epilogue, bool kTf32, int kAOrder, int kBOrder, int kOutOrder, int BLOCK_M, int BLOCK_N, int BLOCK_K,
          int NUM_STAGES, int GROUP_M, bool kHasBatch, bool kHasManyTiles, typename A, typename B, typename Addend,
          typename Out>
KILN_MATMUL_KERNEL((kInPairs<A, kTf32, BLOCK_M, BLOCK_N> ? 2 : 1))
void matmul_kernel(const A* a, const B* b, const Addend* addend, Out* out, const float* scale_a, const float* scale_b,
                   MatmulIteration it, MatmulScalars<typename Epilogue::Compute> scalars) {
  tl::wait_for_previous();
  Epilogue epilogue{scalars};
  if constexpr (Epilogue::kScaled) epilogue.scale(tl::load(scale_a), tl::load(scale_b));
  constexpr tl::DotPrecision kPrecision = kTf32 ? tl::DotPrecision::tf32 : tl::DotPrecision::ieee;
  multiply_and_finish<Epilogue, kPrecision, kAOrder, kBOrder, kOutOrder, BLOCK_M, BLOCK_N, BLOCK_K, NUM_STAGES, GROUP_M,
                      kHasBatch, kHasManyTiles>(epilogue, a, b, addend, out, it);
}

/// Sums of one part of k for each of the grid's axis 1, to matrices of their own: `it` has their strides for out.
template <typename Sum, bool kTf32, int kAOrder, int kBOrder, int BLOCK_M, int BLOCK_N, int BLOCK_K, int NUM_STAGES,
          int GROUP_M, bool kHasBatch, bool kHasManyTiles, typename A, typename B>
KILN_MATMUL_KERNEL((kInPairs<A, kTf32, BLOCK_M, BLOCK_N> ? 2 : 1))
void matmul_partial_kernel(const A* a, const B* b, Sum* partial_sums, MatmulIteration it) {
  constexpr tl::DotPrecision kPrecision = kTf32 ? tl::DotPrecision::tf32 : tl::DotPrecision::ieee;
  multiply_and_finish<PartialSum<Sum>, kPrecision, kAOrder, kBOrder, kColumnsContiguous, BLOCK_M, BLOCK_N, BLOCK_K,
                      NUM_STAGES, GROUP_M, kHasBatch, kHasManyTiles>({}, a, b, static_cast<const Sum*>(nullptr),
                                                                     partial_sums, it);
}

}  // namespace kiln::ops
