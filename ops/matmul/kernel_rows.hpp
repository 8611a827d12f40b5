#pragma once

#include <kiln/tl.hpp>

#include "ops/matmul/kernel_output.hpp"

namespace kiln::ops {

/// Whether a packet of 16 bytes may start here.
KILN_DEVICE bool starts_packet(const void* address) {
  return reinterpret_cast<tl::uint64_t>(address) % 16 == 0;
}

#if defined(KILN_TARGET_CUDA)
inline constexpr bool kMovesTiles = true;
template <typename S>
inline constexpr bool kHasPackets = tl::DefaultLayout<S>::kVector > 1;
#else
// Threads would write the same elements at the same time.
inline constexpr bool kMovesTiles = false;
template <typename S>
inline constexpr bool kHasPackets = false;
#endif

/// A few rows times a matrix: the matrix is read once, as wide as it goes, and multiplied where it arrives. Its tiles
/// lie in registers with their columns along the contiguous dimension, k where b's rows are; one sum to each element of
/// the tile and row of a, joined at the end. UNROLL whole tiles are loaded before the first is used: reading a matrix
/// takes that many bytes in flight. Masked loads are slow, so that on GPUs tiles that would reach over the end of n or
/// k lie further ahead: columns are computed twice, and of k what has been added is left out.
template <int kAOrder, int kBOrder, int kOutOrder, int ROWS, int BLOCK_N, int BLOCK_K, int UNROLL, bool kHasBatch,
          typename Epilogue, typename A, typename B, typename Addend, typename Out>
KILN_DEVICE void multiply_rows(const Epilogue& epilogue, const A* a, const B* b, const Addend* addend, Out* out,
                               const MatmulIteration& it) {
  using Sum = tl::dot_sum_t<A>;
  constexpr bool kAlongK = kBOrder == kRowsContiguous;
  constexpr int kKAxis = kAlongK ? 1 : 0;
  using S = tl::conditional_t<kAlongK, tl::Shape<BLOCK_N, BLOCK_K>, tl::Shape<BLOCK_K, BLOCK_N>>;
  const auto inner = tl::expand_dims<1 - kKAxis>(tl::arange<BLOCK_K>());
  const auto columns = tl::expand_dims<kKAxis>(tl::arange<BLOCK_N>());

  MatmulPlace place = matmul_place<ROWS, BLOCK_N, 1, kHasBatch>(it, static_cast<ProgramNumber>(tl::program_id(0)));
  const tl::int64_t split = tl::program_id(1);
  const tl::int64_t k_begin = split * it.k_per_split;
  const tl::int64_t k_end = k_begin + it.k_per_split < it.k ? k_begin + it.k_per_split : it.k;
  const tl::int64_t a_k_stride = kAOrder == kColumnsContiguous ? 1 : it.column_strides[kMatmulA];
  // Lines of b are multiples of a packet apart where the plan gives the layout packets: written so that the compiler
  // knows it too, and leaves out the path for tiles that are not aligned.
  constexpr bool kPacked = kMovesTiles && kHasPackets<S> && (!kAlongK || BLOCK_K % (16 / sizeof(B)) == 0);
  constexpr bool kAPacked = kPacked && kAlongK && kAOrder == kColumnsContiguous;
  constexpr tl::int64_t kPacket = kPacked ? 16 / sizeof(B) : 1;
  // Not off packets: columns that two programs have would be added up in another order by one of them.
  if (kMovesTiles && it.n >= BLOCK_N && place.column > it.n - BLOCK_N && (kAlongK || (it.n - BLOCK_N) % kPacket == 0))
    place.column = it.n - BLOCK_N;
  const tl::int64_t b_stride = (kAlongK ? it.column_strides[kMatmulB] : it.row_strides[kMatmulB]) & -kPacket;
  const tl::int64_t b_k_stride = kAlongK ? 1 : b_stride;
  const A* const a_first = a + place.batch_offsets[kMatmulA];
  const B* const b_first = b + place.batch_offsets[kMatmulB] + place.column * (kAlongK ? b_stride : 1);
  const auto a_offsets = [&] {
    if constexpr (kAOrder == kColumnsContiguous)
      return inner;
    else
      return inner * a_k_stride;
  }();
  const auto b_offsets = [&] {
    if constexpr (kAlongK)
      return columns * b_stride + inner;
    else
      return inner * b_stride + columns;
  }();

  tl::Tile<Sum, S> sums[ROWS];
  KILN_UNROLL for (int row = 0; row < ROWS; ++row) sums[row] = tl::full_of<Sum, S>(Sum{});
  // Rows that are not there repeat the last one and are not stored.
  const auto a_row = [&](int row) { return a_first + (row < it.m ? row : it.m - 1) * it.row_strides[kMatmulA]; };
  const auto add_products = [&](int row, const tl::Tile<Sum, S>& left, const tl::Tile<Sum, S>& right) {
    if constexpr (tl::NumberTraits<Sum>::kIsFloating)
      sums[row] = tl::fma(left, right, sums[row]);
    else
      sums[row] = sums[row] + left * right;
  };

  bool whole = it.n - place.column >= BLOCK_N;
  if constexpr (kPacked) {
    whole = whole && starts_packet(b_first + k_begin * b_k_stride);
    if constexpr (kAPacked)
      KILN_UNROLL for (int row = 0; row < ROWS; ++row) whole = whole && starts_packet(a_row(row) + k_begin);
  }
  tl::int64_t k = k_begin;
  if (whole) {
    const auto a_everywhere = tl::broadcast_to<S::kRows, S::kColumns>(a_offsets);
    constexpr int kAtOnce = UNROLL * BLOCK_K;
    // `multiply(u, row, left, right)` for UNROLL tiles from `at` on.
    const auto for_tiles = [&](tl::int64_t at, const auto& multiply) {
      tl::Tile<B, S> loaded[UNROLL];
      KILN_UNROLL for (int u = 0; u < UNROLL; ++u) {
        const B* const from = b_first + (at + u * BLOCK_K) * b_k_stride;
        if constexpr (kPacked) __builtin_assume(starts_packet(from));
        loaded[u] = tl::load(from + b_offsets);
      }
      KILN_UNROLL for (int u = 0; u < UNROLL; ++u) {
        const auto right = tl::cast<Sum>(loaded[u]);
        KILN_UNROLL for (int row = 0; row < ROWS; ++row) {
          const A* const from = a_row(row) + (at + u * BLOCK_K) * a_k_stride;
          if constexpr (kAPacked) __builtin_assume(starts_packet(from));
          multiply(u, row, tl::cast<Sum>(tl::load(from + a_everywhere)), right);
        }
      }
    };
    KILN_NO_UNROLL for (; k + kAtOnce <= k_end; k += kAtOnce)
        for_tiles(k, [&](int, int row, const auto& left, const auto& right) { add_products(row, left, right); });
    const tl::int64_t last = k_end - kAtOnce;
    // Of four rows of bytes a second pass takes more registers than there are.
    constexpr bool kMovesLast = kMovesTiles && ROWS * (16 / sizeof(B)) <= 32;
    if (kMovesLast && k < k_end && last >= k_begin && (!kPacked || !kAlongK || (last - k_begin) % kPacket == 0)) {
      const auto nothing = tl::full_of<Sum, S>(Sum{});
      for_tiles(last, [&](int u, int row, const auto& left, const auto& right) {
        const auto is_new = (columns < BLOCK_N) & (inner >= k - last - u * BLOCK_K);
        const auto added = tl::where(is_new, left, nothing);
        if constexpr (tl::NumberTraits<Sum>::kIsFloating)
          add_products(row, added, tl::where(is_new, right, nothing));  // 0 times infinity is not 0
        else
          add_products(row, added, right);
      });
      k = k_end;
    }
  }
  KILN_NO_UNROLL for (; k < k_end; k += BLOCK_K) {
    const auto mask = (columns < it.n - place.column) & (inner < k_end - k);
    const auto right = tl::cast<Sum>(tl::load(b_first + k * b_k_stride + b_offsets, mask));
    KILN_UNROLL for (int row = 0; row < ROWS; ++row)
        add_products(row, tl::cast<Sum>(tl::load(a_row(row) + k * a_k_stride + a_offsets, mask)), right);
  }
  KILN_UNROLL for (int row = 0; row < ROWS; ++row) {
    place.row = row;
    const auto total = tl::expand_dims<0>(tl::sum<kKAxis>(sums[row]));
    finish_tile<kOutOrder>(epilogue, tl::broadcast_to_shape<tl::Shape<1, BLOCK_N>>(total), it, place, addend,
                           out + split * it.split_stride);
  }
}

template <typename Epilogue, int kAOrder, int kBOrder, int kOutOrder, int ROWS, int BLOCK_N, int BLOCK_K, int UNROLL,
          bool kHasBatch, typename A, typename B, typename Addend, typename Out>
KILN_MATMUL_KERNEL(1)
void matmul_rows_kernel(const A* a, const B* b, const Addend* addend, Out* out, const float* scale_a,
                        const float* scale_b, MatmulIteration it, MatmulScalars<typename Epilogue::Compute> scalars) {
  tl::wait_for_previous();
  Epilogue epilogue{scalars};
  if constexpr (Epilogue::kScaled) epilogue.scale(tl::load(scale_a), tl::load(scale_b));
  multiply_rows<kAOrder, kBOrder, kOutOrder, ROWS, BLOCK_N, BLOCK_K, UNROLL, kHasBatch>(epilogue, a, b, addend, out,
                                                                                        it);
}

/// As matmul_partial_kernel.
template <typename Sum, int kAOrder, int kBOrder, int ROWS, int BLOCK_N, int BLOCK_K, int UNROLL, bool kHasBatch,
          typename A, typename B>
KILN_MATMUL_KERNEL(1)
void matmul_rows_partial_kernel(const A* a, const B* b, Sum* partial_sums, MatmulIteration it) {
  multiply_rows<kAOrder, kBOrder, kColumnsContiguous, ROWS, BLOCK_N, BLOCK_K, UNROLL, kHasBatch>(
      PartialSum<Sum>{}, a, b, static_cast<const Sum*>(nullptr), partial_sums, it);
}

}  // namespace kiln::ops
