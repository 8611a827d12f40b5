#pragma once

// Not all of <kiln/tl.hpp>: reading what these kernels do not use would be a tenth of the time to compile one.
#include "compiler/tl/cover.hpp"
#include "ops/common/kernel_coordinates.hpp"
#include "ops/common/kernel_place.hpp"
#include "ops/common/kernel_span.hpp"
#include "ops/elementwise/functors.hpp"
#include "ops/elementwise/iteration.hpp"

namespace kiln::ops {

// The pointers come before the scalars, which most functors do not read: the GPU then finds all it needs in one line of
// its constant cache.

/// Converted by many instructions, the GPU's own being few and inexact at the edges.
template <typename T>
inline constexpr bool is_fp8 = tl::Floating<T> && sizeof(T) == 1;

/// tl::cover of a program's block.
template <typename Functor, int BLOCK_SIZE, typename Body, typename Out, typename... In>
KILN_DEVICE void cover_elements(tl::int64_t n, Body body, Out* out, const In*... in) {
  if constexpr (is_fp8<Out> || (... || is_fp8<In>)) {  // code of which a second copy would take longer to compile than
                                                       // it saves at run time
    const auto offsets = tl::program_id(0) * BLOCK_SIZE + tl::arange<BLOCK_SIZE>();
    body(offsets, offsets < n);
  } else {
    tl::cover<BLOCK_SIZE, is_long<Functor> ? 1 : 4>(tl::program_id(0), n, body, out, in...);
  }
}

/// out[i] = Functor(in[i]...) over dense tensors of n elements in one order. Inputs are cast to Compute, the result to
/// Out. STREAM: the output goes past the caches, where it is none of the inputs.
template <typename Functor, typename Compute, int BLOCK_SIZE, int STREAM, typename Out, typename... In>
KILN_KERNEL void elementwise_contiguous_kernel(Out* out, tl::int64_t n, const In*... in, Scalars scalars) {
  const auto body = [&](const auto& offsets, const auto& mask) {
    const auto values =
        tl::cast<Out>(Functor::template apply<Compute>(scalars, tl::cast<Compute>(tl::load(in + offsets, mask))...));
    if constexpr (STREAM != 0)
      tl::store_streaming(out + offsets, values, mask, (... && (static_cast<const void*>(in) != out)));
    else
      tl::store(out + offsets, values, mask);
  };
  if constexpr (STREAM != 0)
    tl::cover_lines<BLOCK_SIZE>(tl::program_id(0), n, body, out);
  else
    cover_elements<Functor, BLOCK_SIZE>(n, body, out, in...);
}

/// The offsets of one operand's tile that begins at (row, column) of what is at `base`. The kind of its stride along
/// the columns is in the type; a tile of one row has no stride along the rows.
template <int kRows, int kColumns, int kKind>
KILN_DEVICE auto tile_offsets(tl::int64_t base, tl::int64_t row, tl::int64_t column, tl::int64_t row_stride,
                              tl::int64_t column_stride) {
  using Shape = tl::Shape<kRows, kColumns>;
  const auto columns = [&] {
    if constexpr (kKind == kStrideAny)
      return column_stride;
    else
      return tl::Constant<kKind == kStrideOne>{};
  }();
  base += row * row_stride + column * columns;
  if constexpr (kRows == 1)
    return tl::make_affine<Shape>(base, tl::Constant<0>{}, columns);
  else
    return tl::make_affine<Shape>(base, row_stride, columns);
}

/// Column block, row block and every operand's outer offset of a program.
template <int kOperands>
KILN_DEVICE void split_program(const StridedIteration& iteration, tl::int64_t program, tl::int64_t& column_block,
                               tl::int64_t& row_block, tl::int64_t (&outer)[kOperands]) {
  ProgramNumber rest = static_cast<ProgramNumber>(program);
  column_block = take_coordinate(rest, iteration.column_blocks);
  row_block = take_coordinate(rest, iteration.row_blocks);
  KILN_NO_UNROLL for (int dim = 0; dim < iteration.num_outer_dims; ++dim) {
    const tl::int64_t coordinate = take_coordinate(rest, iteration.outer_extents[dim]);
    KILN_UNROLL for (int operand = 0; operand < kOperands; ++operand) outer[operand] +=
        coordinate * iteration.outer_strides[operand][dim];
  }
}

/// Programs of a GPU are a tile of the two inner dimensions, those of a CPU go through a span of them in such tiles.
/// STREAM: as above, where rows are dense.
template <typename Functor, typename Compute, int BLOCK_M, int BLOCK_N, int STREAM, int STRIDE_KINDS, typename Out,
          typename... In>
KILN_KERNEL void elementwise_strided_kernel(Out* out, StridedIteration iteration, const In*... in, Scalars scalars) {
  constexpr int kOperands = 1 + sizeof...(In);
  tl::int64_t column_block, row_block, outer[kOperands] = {};
  split_program<kOperands>(iteration, tl::program_id(0), column_block, row_block, outer);

  const auto run_tile = [&](tl::int64_t first_row, tl::int64_t first_column, const auto& mask) {
    const auto offsets = [&]<int kOperand>() {
      constexpr int kKind = (STRIDE_KINDS >> (2 * kOperand)) & 3;
      return tile_offsets<BLOCK_M, BLOCK_N, kKind>(outer[kOperand], first_row, first_column,
                                                   iteration.row_strides[kOperand], iteration.column_strides[kOperand]);
    };
    // The inputs come as arguments whose types are deduced anew: within two generic lambdas NVRTC 13.0 knows of the
    // kernel's packs only the first element, of `in` as of `In`.
    const auto run = [&]<int... kInput>(tl::Sequence<kInput...>, const auto*... inputs) {
      const auto values = tl::cast<Out>(Functor::template apply<Compute>(
          scalars, tl::cast<Compute>(tl::load(inputs + offsets.template operator()<1 + kInput>(), mask))...));
      if constexpr (STREAM != 0)
        tl::store_streaming(out + offsets.template operator()<0>(), values, mask,
                            (... && (static_cast<const void*>(inputs) != out)));
      else
        tl::store(out + offsets.template operator()<0>(), values, mask);
    };
    run(tl::make_sequence<sizeof...(In)>(), in...);
  };
#if defined(KILN_TARGET_CUDA)
  const tl::int64_t first_row = row_block * BLOCK_M, first_column = column_block * BLOCK_N;
  const auto rows = tl::expand_dims<1>(first_row + tl::arange<BLOCK_M>());
  const auto columns = tl::expand_dims<0>(first_column + tl::arange<BLOCK_N>());
  if constexpr (BLOCK_M == 1)  // the row blocks are the rows
    run_tile(first_row, first_column, columns < iteration.columns);
  else
    run_tile(first_row, first_column, (rows < iteration.rows) & (columns < iteration.columns));
#else
  const Span rows = span_of(row_block, iteration.block_rows, iteration.rows);
  const Span columns = span_of(column_block, iteration.block_columns, iteration.columns);
  if constexpr (STREAM != 0)
    for_each_tile_by_lines<BLOCK_N>(rows, columns, out + outer[0], iteration.row_strides[0], run_tile);
  else
    for_each_tile<BLOCK_M, BLOCK_N>(rows, columns, run_tile);
#endif
}

/// Coordinates per element, for shapes that would leave a two-dimensional tile mostly empty or its rows off the
/// addresses of wide accesses. LINEAR: a bit for each operand, the output's lowest, that lies in the order in which
/// elements are counted, and is accessed as dense arrays are. The rest: see Counting.
template <typename Functor, typename Compute, int BLOCK_SIZE, int LINEAR, int NUM_DIMS, int STRIDE_KINDS, int LONG_ROWS,
          typename Out, typename... In>
KILN_KERNEL void elementwise_indexed_kernel(Out* out, IndexedIteration iteration, const In*... in, Scalars scalars) {
  using C = Counting<NUM_DIMS, STRIDE_KINDS, LONG_ROWS != 0>;
  const auto body = [&](const auto& numbers, const auto& mask) {
    const auto run = [&]<int... kInput>(tl::Sequence<kInput...>, const auto*... inputs) {
      const auto values = tl::cast<Out>(Functor::template apply<Compute>(
          scalars,
          tl::cast<Compute>(tl::load(counted_places<C, 1 + kInput, LINEAR>(iteration, inputs, numbers), mask))...));
      tl::store(counted_places<C, 0, LINEAR>(iteration, out, numbers), values, mask);
    };
    run(tl::make_sequence<sizeof...(In)>(), in...);
  };
  const auto run = [&]<int... kInput>(tl::Sequence<kInput...>, const auto*... inputs) {
    // What is not accessed as a dense array is aligned as far as that goes.
    cover_elements<Functor, BLOCK_SIZE>(iteration.n, body, (LINEAR & 1) != 0 ? out : nullptr,
                                        ((LINEAR >> (1 + kInput) & 1) != 0 ? inputs : nullptr)...);
  };
  run(tl::make_sequence<sizeof...(In)>(), in...);
}

}  // namespace kiln::ops
