#pragma once

#include <kiln/tl.hpp>

#include "ops/matmul/kernel_output.hpp"

namespace kiln::ops {

/// Products with little of k, or little of all: a thread has some rows and columns of the output and walks down k, with
/// loads of any stride straight from memory and no more. BLOCK_M and BLOCK_N are at most m and n; tiles that would
/// reach over the end lie further ahead and are computed twice, so that nothing is masked. UNROLL steps of k are loaded
/// before the first is used.
template <typename Epilogue, int kAOrder, int kBOrder, int kOutOrder, int BLOCK_M, int BLOCK_N, int UNROLL,
          bool kHasBatch, typename A, typename B, typename Addend, typename Out>
KILN_MATMUL_KERNEL(1)
void matmul_thin_kernel(const A* a, const B* b, const Addend* addend, Out* out, const float* scale_a,
                        const float* scale_b, MatmulIteration it, MatmulScalars<typename Epilogue::Compute> scalars) {
  using Sum = tl::dot_sum_t<A>;
  using S = tl::Shape<BLOCK_M, BLOCK_N>;
  tl::wait_for_previous();
  Epilogue epilogue{scalars};
  if constexpr (Epilogue::kScaled) epilogue.scale(tl::load(scale_a), tl::load(scale_b));
  MatmulPlace place = matmul_place<BLOCK_M, BLOCK_N, 1, kHasBatch>(it, static_cast<ProgramNumber>(tl::program_id(0)));
  if (place.row > it.m - BLOCK_M) place.row = it.m - BLOCK_M;
  if (place.column > it.n - BLOCK_N) place.column = it.n - BLOCK_N;
  const tl::int64_t a_k_stride = kAOrder == kColumnsContiguous ? 1 : it.column_strides[kMatmulA];
  const tl::int64_t b_k_stride = kBOrder == kRowsContiguous ? 1 : it.row_strides[kMatmulB];
  const A* const a_first = a + place.batch_offsets[kMatmulA] + place.row * it.row_strides[kMatmulA];
  const B* const b_first = b + place.batch_offsets[kMatmulB] + place.column * it.column_strides[kMatmulB];
  const auto rows = tl::expand_dims<1>(tl::arange<BLOCK_M>());
  const auto columns = tl::expand_dims<0>(tl::arange<BLOCK_N>());
  const auto a_offsets = [&] {
    if constexpr (kAOrder == kRowsContiguous)
      return rows;
    else
      return rows * it.row_strides[kMatmulA];
  }();
  const auto b_offsets = [&] {
    if constexpr (kBOrder == kColumnsContiguous)
      return columns;
    else
      return columns * it.column_strides[kMatmulB];
  }();

  auto sums = tl::full_of<Sum, S>(Sum{});
  const int depth = static_cast<int>(it.k);  // the variant serves a few dozen
  KILN_NO_UNROLL for (int k = 0; k < depth; k += UNROLL) {
    tl::Tile<A, S> left[UNROLL];
    tl::Tile<B, S> right[UNROLL];
    KILN_UNROLL for (int u = 0; u < UNROLL; ++u) {
      const int at = k + u < depth ? k + u : depth - 1;
      left[u] = tl::load_like(sums, a_first + at * a_k_stride + a_offsets);
      right[u] = tl::load_like(sums, b_first + at * b_k_stride + b_offsets);
    }
    KILN_UNROLL for (int u = 0; u < UNROLL; ++u) {
      const auto next = [&] {
        if constexpr (tl::NumberTraits<Sum>::kIsFloating)
          return tl::fma(tl::cast<Sum>(left[u]), tl::cast<Sum>(right[u]), sums);
        else
          return sums + tl::cast<Sum>(left[u]) * tl::cast<Sum>(right[u]);
      }();
      // Chosen, not branched upon: the compiler moves loads behind a branch, where each waits for the one before.
      sums = tl::where(k + u < depth, next, sums);
    }
  }
  finish_tile<kOutOrder>(epilogue, sums, it, place, addend, out);
}

}  // namespace kiln::ops
