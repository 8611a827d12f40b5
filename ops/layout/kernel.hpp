#pragma once

#include <kiln/tl.hpp>

#include "ops/common/kernel_coordinates.hpp"
#include "ops/common/kernel_place.hpp"
#include "ops/common/kernel_span.hpp"
#include "ops/layout/iteration.hpp"

// Copies from one layout to another. Where dtypes agree T is an unsigned integer of that size: the bits move as they
// are, and dtypes share kernels.

namespace kiln::ops {

/// Where a program's two tiled dimensions start, and its outer indices' offsets.
struct CopyPlace {
  tl::int64_t row_block, column_block;
  tl::int64_t offsets[kCopyOperands];
};

template <bool kRowsFirst>
KILN_DEVICE CopyPlace place_of(const CopyIteration& iteration, tl::int64_t program) {
  ProgramNumber rest = static_cast<ProgramNumber>(program);
  CopyPlace place;
  if constexpr (kRowsFirst) place.row_block = take_coordinate(rest, iteration.row_blocks);
  place.column_block = take_coordinate(rest, iteration.column_blocks);
  if constexpr (!kRowsFirst) place.row_block = take_coordinate(rest, iteration.row_blocks);
  KILN_UNROLL for (int operand = 0; operand < kCopyOperands; ++operand) place.offsets[operand] =
      iteration.offsets[operand];
  KILN_NO_UNROLL for (int dim = 0; dim < iteration.num_outer_dims; ++dim) {
    const tl::int64_t coordinate = take_coordinate(rest, iteration.outer_extents[dim]);
    KILN_UNROLL for (int operand = 0; operand < kCopyOperands; ++operand) place.offsets[operand] +=
        coordinate * iteration.outer_strides[operand][dim];
  }
  return place;
}

/// Dense operands of n elements in one order. STREAM: the output goes past the caches.
template <typename To, typename From, int BLOCK_SIZE, int STREAM>
KILN_KERNEL void copy_contiguous_kernel(To* out, const From* x, tl::int64_t n, tl::int64_t out_offset,
                                        tl::int64_t x_offset) {
  out += out_offset;
  x += x_offset;
  const auto body = [&](const auto& offsets, const auto& mask) {
    const auto values = tl::cast<To>(tl::load(x + offsets, mask));
    if constexpr (STREAM != 0)
      tl::store_streaming(out + offsets, values, mask, true);
    else
      tl::store(out + offsets, values, mask);
  };
  if constexpr (STREAM != 0)
    tl::cover_lines<BLOCK_SIZE>(tl::program_id(0), n, body, out);
  else
    tl::cover<BLOCK_SIZE, 4>(tl::program_id(0), n, body, out, x);
}

/// One operand's column offsets, with its stride's kind in the type.
template <int kKind, int kColumns>
KILN_DEVICE auto copy_columns(tl::int64_t first_column, tl::int64_t stride) {
  const auto columns = tl::expand_dims<0>(first_column + tl::arange<kColumns>());
  if constexpr (kKind == kStrideZero)
    return columns * 0;
  else if constexpr (kKind == kStrideOne)
    return columns;
  else
    return columns * stride;
}

/// Any strides: BLOCK_M x BLOCK_N for each program of a GPU, a span of the rows and columns in such tiles for those of
/// a CPU. STREAM: the output goes past the caches, where its rows are dense.
template <typename To, typename From, int BLOCK_M, int BLOCK_N, int STREAM, int STRIDE_KINDS>
KILN_KERNEL void copy_strided_kernel(To* out, const From* x, CopyIteration iteration) {
  const CopyPlace place = place_of<false>(iteration, tl::program_id(0));
  const auto copy_tile = [&](tl::int64_t first_row, tl::int64_t first_column, const auto& mask) {
    const auto rows = tl::expand_dims<1>(first_row + tl::arange<BLOCK_M>());
    const auto out_columns = copy_columns < STRIDE_KINDS & 3,
               BLOCK_N > (first_column, iteration.column_strides[kCopyOut]);
    const auto x_columns = copy_columns < (STRIDE_KINDS >> 2) & 3,
               BLOCK_N > (first_column, iteration.column_strides[kCopyIn]);
    const auto tile = tl::load(x + (place.offsets[kCopyIn] + rows * iteration.row_strides[kCopyIn] + x_columns), mask);
    const auto to = out + (place.offsets[kCopyOut] + rows * iteration.row_strides[kCopyOut] + out_columns);
    if constexpr (STREAM != 0)
      tl::store_streaming(to, tl::cast<To>(tile), mask, true);
    else
      tl::store(to, tl::cast<To>(tile), mask);
  };
#if defined(KILN_TARGET_CUDA)
  const tl::int64_t first_row = place.row_block * BLOCK_M, first_column = place.column_block * BLOCK_N;
  const auto columns = tl::expand_dims<0>(first_column + tl::arange<BLOCK_N>());
  if constexpr (BLOCK_M == 1)  // the row is there
    copy_tile(first_row, first_column, columns < iteration.columns);
  else
    copy_tile(first_row, first_column,
              (tl::expand_dims<1>(first_row + tl::arange<BLOCK_M>()) < iteration.rows) & (columns < iteration.columns));
#else
  const Span rows = span_of(place.row_block, iteration.block_rows, iteration.rows);
  const Span columns = span_of(place.column_block, iteration.block_columns, iteration.columns);
  if constexpr (STREAM != 0)
    for_each_tile_by_lines<BLOCK_N>(rows, columns, out + place.offsets[kCopyOut], iteration.row_strides[kCopyOut],
                                    copy_tile);
  else
    for_each_tile<BLOCK_M, BLOCK_N>(rows, columns, copy_tile);
#endif
}

/// Several tensors, each to a part of the output: a program finds the piece that it is of, and copies a tile of it.
template <typename T, int BLOCK_M, int BLOCK_N, typename... In>
KILN_KERNEL void copy_joined_kernel(T* out, JoinedIteration iteration, const In*... in) {
  const tl::int64_t program = tl::program_id(0);
  int number = 0;
  KILN_UNROLL for (int i = 1; i < static_cast<int>(sizeof...(In)); ++i) number +=
      program >= iteration.pieces[i].first_program;
  const T* x = nullptr;
  int i = 0;
  ((x = i++ == number ? in : x), ...);
  const JoinedPiece& piece = iteration.pieces[number];
  ProgramNumber rest = static_cast<ProgramNumber>(program - piece.first_program);
  const tl::int64_t first_column = take_coordinate(rest, piece.column_blocks) * BLOCK_N;
  const auto rows = tl::expand_dims<1>(static_cast<tl::int64_t>(rest) * BLOCK_M + tl::arange<BLOCK_M>());
  const auto columns = tl::expand_dims<0>(first_column + tl::arange<BLOCK_N>());
  const auto copy_tile = [&](const auto& mask) {
    const auto tile = tl::load(x + (piece.offsets[kCopyIn] + rows * piece.row_strides[kCopyIn] + columns), mask);
    tl::store(out + (piece.offsets[kCopyOut] + rows * piece.row_strides[kCopyOut] + columns), tile, mask);
  };
  if constexpr (BLOCK_M == 1)  // the row is there
    copy_tile(columns < piece.columns);
  else
    copy_tile((rows < piece.rows) & (columns < piece.columns));
}

/// x is dense along the columns, out along the rows. STRADDLING, SEAM_BYTES: see tl::copy_transposed.
template <typename T, int BLOCK_M, int BLOCK_N, bool STRADDLING, int SEAM_BYTES>
KILN_KERNEL void copy_transposed_kernel(T* out, const T* x, CopyIteration iteration) {
  const CopyPlace place = place_of<true>(iteration, tl::program_id(0));
  tl::copy_transposed<BLOCK_M, BLOCK_N, STRADDLING, SEAM_BYTES>(
      out + place.offsets[kCopyOut], iteration.column_strides[kCopyOut], x + place.offsets[kCopyIn],
      iteration.row_strides[kCopyIn], place.row_block, place.column_block, iteration.rows, iteration.columns);
}

/// As above where out's columns, of few rows, follow one another: block_columns of them, which fit in TILE_BYTES.
template <typename T, int TILE_BYTES>
KILN_KERNEL void copy_interleaved_kernel(T* out, const T* x, CopyIteration iteration) {
  const CopyPlace place = place_of<true>(iteration, tl::program_id(0));
  const tl::int64_t first_column = place.column_block * iteration.block_columns;
  const tl::int64_t left = iteration.columns - first_column;
  tl::copy_interleaved<TILE_BYTES>(out + (place.offsets[kCopyOut] + first_column * iteration.rows),
                                   x + (place.offsets[kCopyIn] + first_column), iteration.row_strides[kCopyIn],
                                   static_cast<int>(iteration.rows), static_cast<int>(iteration.block_columns),
                                   static_cast<int>(left < iteration.block_columns ? left : iteration.block_columns));
}

/// As copy_transposed_kernel between two dtypes, in tiles of TILE_M x TILE_N.
template <typename To, typename From, int BLOCK_M, int BLOCK_N, int TILE_M, int TILE_N>
KILN_KERNEL void cast_transposed_kernel(To* out, const From* x, CopyIteration iteration) {
  const CopyPlace place = place_of<true>(iteration, tl::program_id(0));
  KILN_NO_UNROLL for (int start_row = 0; start_row < BLOCK_M; start_row += TILE_M) {
    KILN_NO_UNROLL for (int start_column = 0; start_column < BLOCK_N; start_column += TILE_N) {
      const auto rows = tl::expand_dims<1>(place.row_block * BLOCK_M + start_row + tl::arange<TILE_M>());
      const auto columns = tl::expand_dims<0>(place.column_block * BLOCK_N + start_column + tl::arange<TILE_N>());
      const auto mask = (rows < iteration.rows) & (columns < iteration.columns);
      const auto tile = tl::load(x + (place.offsets[kCopyIn] + rows * iteration.row_strides[kCopyIn] + columns), mask);
      const auto to = out + (place.offsets[kCopyOut] + rows + columns * iteration.column_strides[kCopyOut]);
      tl::store(tl::trans(to), tl::trans(tl::cast<To>(tile)), tl::trans(mask));
    }
  }
}

/// Coordinates per element, for shapes that would leave a two-dimensional tile mostly empty. LINEAR: a bit for the
/// output, and one for the input, where it lies in the order in which elements are counted. The rest: see Counting.
template <typename To, typename From, int BLOCK_SIZE, int LINEAR, int NUM_DIMS, int STRIDE_KINDS, int LONG_ROWS>
KILN_KERNEL void copy_indexed_kernel(To* out, const From* x, IndexedIteration iteration, tl::int64_t out_offset,
                                     tl::int64_t x_offset) {
  using C = Counting<NUM_DIMS, STRIDE_KINDS, LONG_ROWS != 0>;
  out += out_offset;
  x += x_offset;
  const auto body = [&](const auto& numbers, const auto& mask) {
    const auto from = counted_places<C, kCopyIn, LINEAR>(iteration, x, numbers);
    tl::store(counted_places<C, kCopyOut, LINEAR>(iteration, out, numbers), tl::cast<To>(tl::load(from, mask)), mask);
  };
  tl::cover<BLOCK_SIZE, 4>(tl::program_id(0), iteration.n, body, (LINEAR >> kCopyOut & 1) != 0 ? out : nullptr,
                           (LINEAR >> kCopyIn & 1) != 0 ? x : nullptr);
}

}  // namespace kiln::ops
