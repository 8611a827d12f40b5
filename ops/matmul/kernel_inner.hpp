#pragma once

#include "ops/matmul/kernel_direct.hpp"

namespace kiln::ops {

/// Blocks of ROWS x COLUMNS, vectors along k, which is contiguous in a and, but for DEPTH, in b: LANES of k at a time,
/// and a remainder of K_TAIL. DEPTH: where it is not 0 k is at most that, and the columns of b, COLUMNS in all, do not
/// lie along k; a program copies them side by side.
template <int kOutOrder, int ROWS, int COLUMNS, int LANES, int K_TAIL, int UNROLL, int DEPTH, bool kIsLong,
          bool kHasBatch, typename Epilogue, typename C, typename Addend, typename Out>
KILN_DEVICE void multiply_inner(const Epilogue& epilogue, const C* a, const C* b, const Addend* addend, Out* out,
                                const MatmulIteration& it) {
  MatmulPlace place;
  const DirectPart part = direct_part<ROWS, COLUMNS, kHasBatch>(it, place);
  const DirectOutput<Addend, Out> output(addend, out, place);
  const C* const left = a + place.batch_offsets[kMatmulA];
  const C* right = b + place.batch_offsets[kMatmulB];
  const tl::int64_t a_stride = it.row_strides[kMatmulA];
  const tl::int64_t b_stride = DEPTH > 0 ? DEPTH : it.column_strides[kMatmulB];
  alignas(64) C columns[DEPTH > 0 ? COLUMNS * DEPTH : 1];
  if constexpr (DEPTH > 0) {
    KILN_NO_UNROLL for (tl::int64_t column = 0; column < it.n; ++column) {
      const C* const from = right + column * it.column_strides[kMatmulB];
      KILN_TILE_LOOP for (tl::int64_t k = 0; k < it.k; ++k) columns[column * DEPTH + k] =
          from[k * it.row_strides[kMatmulB]];
    }
    right = columns;
  }
  KILN_NO_UNROLL for (tl::int64_t next = part.column; next < part.column_end; next += COLUMNS) {
    const tl::int64_t column = next + COLUMNS <= part.column_end ? next : part.column_end - COLUMNS;
    KILN_NO_UNROLL for (tl::int64_t next_row = part.row; next_row < part.row_end; next_row += ROWS) {
      const tl::int64_t row = next_row + ROWS <= part.row_end ? next_row : part.row_end - ROWS;
      C block[ROWS][COLUMNS];
      const C *a_row = left + row * a_stride, *b_column = right + column * b_stride;
      sum_in_parts<kIsLong, kPartOfK * LANES>(it.k, block, [&]<bool kAdds>(tl::int64_t k, tl::int64_t count) {
        tl::sum_along_k<ROWS, COLUMNS, LANES, K_TAIL, UNROLL, kAdds>(count, a_row + k, a_stride, b_column + k, b_stride,
                                                                     block, tl::make_sequence<ROWS * COLUMNS>());
      });
      KILN_NO_UNROLL for (int r = 0; r < ROWS; ++r)
          output.template finish<kOutOrder>(epilogue, block[r], tl::Constant<COLUMNS>{}, it, row + r, column);
    }
  }
}

template <typename Epilogue, int kOutOrder, int ROWS, int COLUMNS, int LANES, int K_TAIL, int UNROLL, int DEPTH,
          bool kIsLong, bool kHasBatch, typename C, typename Addend, typename Out>
KILN_KERNEL void matmul_inner_kernel(const C* a, const C* b, const Addend* addend, Out* out, const float* /*scale_a*/,
                                     const float* /*scale_b*/, MatmulIteration it,
                                     MatmulScalars<typename Epilogue::Compute> scalars) {
  multiply_inner<kOutOrder, ROWS, COLUMNS, LANES, K_TAIL, UNROLL, DEPTH, kIsLong, kHasBatch>(Epilogue{scalars}, a, b,
                                                                                             addend, out, it);
}
template <typename Sum, int kOutOrder, int ROWS, int COLUMNS, int LANES, int K_TAIL, int UNROLL, int DEPTH,
          bool kIsLong, bool kHasBatch, typename C>
KILN_KERNEL void matmul_inner_partial_kernel(const C* a, const C* b, Sum* partial_sums, MatmulIteration it) {
  take_part_of_k(it, a, b, partial_sums);
  multiply_inner<kOutOrder, ROWS, COLUMNS, LANES, K_TAIL, UNROLL, DEPTH, kIsLong, kHasBatch>(
      PartialSum<Sum>{}, a, b, static_cast<const Sum*>(nullptr), partial_sums, it);
}

}  // namespace kiln::ops
