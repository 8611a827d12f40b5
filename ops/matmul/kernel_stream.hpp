#pragma once

#include "ops/matmul/kernel_direct.hpp"

namespace kiln::ops {

/// ROWS rows, all there are, of at most BLOCK_N columns (two LANES more than the plan's parts have at most), whose sums
/// lie in the nearest cache: b, which is too large for any, is read in whole rows where they lie, some at a time.
/// kFetches: they are fetched ahead, fewer at a time.
template <int kOutOrder, int ROWS, int BLOCK_N, int LANES, bool kFetches, bool kHasBatch, typename Epilogue, typename C,
          typename Addend, typename Out>
KILN_DEVICE void multiply_stream(const Epilogue& epilogue, const C* a, const C* b, const Addend* addend, Out* out,
                                 const MatmulIteration& it) {
  MatmulPlace place;
  const DirectPart part = direct_part<ROWS, LANES, kHasBatch>(it, place);
  const DirectOutput<Addend, Out> output(addend, out, place);
  const C* const left = a + place.batch_offsets[kMatmulA];
  const C* const right = b + place.batch_offsets[kMatmulB] + part.column;
  const tl::int64_t a_stride = it.row_strides[kMatmulA], a_step = it.column_strides[kMatmulA];
  const tl::int64_t b_stride = it.row_strides[kMatmulB];
  const tl::int64_t columns = part.column_end - part.column, whole = columns / LANES * LANES;
  constexpr int kSteps = kFetches ? 4 : 8;
  alignas(64) C totals[ROWS][BLOCK_N], sums[ROWS][BLOCK_N];
  const auto bytes = sizeof(C) * static_cast<unsigned long>(columns);
  KILN_NO_UNROLL for (int row = 0; row < ROWS; ++row) __builtin_memset(totals[row], 0, bytes);
  KILN_NO_UNROLL for (tl::int64_t begin = 0; begin < it.k; begin += kSteps * kPartOfK) {
    const tl::int64_t end = it.k - begin < kSteps * kPartOfK ? it.k : begin + kSteps * kPartOfK;
    KILN_NO_UNROLL for (int row = 0; row < ROWS; ++row) __builtin_memset(sums[row], 0, bytes);
    tl::int64_t k = begin;
    KILN_NO_UNROLL for (; k + kSteps <= end; k += kSteps) {
      const C *a_now = left + k * a_step, *b_now = right + k * b_stride;
      tl::add_whole_rows<LANES, kFetches>(whole, a_now, a_stride, a_step, b_now, b_stride, sums[0], BLOCK_N,
                                          tl::make_sequence<ROWS>(), tl::make_sequence<kSteps>());
      KILN_NO_UNROLL for (tl::int64_t c = whole; c < columns; ++c) KILN_NO_UNROLL for (int row = 0; row < ROWS; ++row)
          KILN_NO_UNROLL for (int i = 0; i < kSteps; ++i) sums[row][c] +=
          a_now[row * a_stride + i * a_step] * b_now[i * b_stride + c];
    }
    KILN_NO_UNROLL for (; k < end; ++k) KILN_NO_UNROLL for (int row = 0; row < ROWS; ++row) {
      const C factor = left[row * a_stride + k * a_step];
      for (tl::int64_t c = 0; c < columns; ++c) sums[row][c] += factor * right[k * b_stride + c];
    }
    KILN_NO_UNROLL for (int row = 0; row < ROWS; ++row) for (tl::int64_t c = 0; c < columns; ++c) totals[row][c] +=
        sums[row][c];
  }
  KILN_NO_UNROLL for (int row = 0; row < ROWS; ++row)
      output.template finish<kOutOrder>(epilogue, totals[row], columns, it, row, part.column);
}

template <typename Epilogue, int kOutOrder, int ROWS, int BLOCK_N, int LANES, bool kFetches, bool kHasBatch, typename C,
          typename Addend, typename Out>
KILN_KERNEL void matmul_stream_kernel(const C* a, const C* b, const Addend* addend, Out* out, const float* /*scale_a*/,
                                      const float* /*scale_b*/, MatmulIteration it,
                                      MatmulScalars<typename Epilogue::Compute> scalars) {
  multiply_stream<kOutOrder, ROWS, BLOCK_N, LANES, kFetches, kHasBatch>(Epilogue{scalars}, a, b, addend, out, it);
}
template <typename Sum, int kOutOrder, int ROWS, int BLOCK_N, int LANES, bool kFetches, bool kHasBatch, typename C>
KILN_KERNEL void matmul_stream_partial_kernel(const C* a, const C* b, Sum* partial_sums, MatmulIteration it) {
  take_part_of_k(it, a, b, partial_sums);
  multiply_stream<kOutOrder, ROWS, BLOCK_N, LANES, kFetches, kHasBatch>(
      PartialSum<Sum>{}, a, b, static_cast<const Sum*>(nullptr), partial_sums, it);
}

}  // namespace kiln::ops
