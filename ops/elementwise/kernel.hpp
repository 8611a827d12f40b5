#pragma once

#include <kiln/tl.hpp>

#include "ops/elementwise/functors.hpp"
#include "ops/elementwise/iteration.hpp"

namespace kiln::ops {

/// out[i] = Functor(in[i]...) over dense tensors of n elements in one order. Inputs are cast to Compute, the result to Out.
template <typename Functor, typename Compute, int BLOCK_SIZE, typename Out, typename... In>
KILN_KERNEL void elementwise_contiguous_kernel(Out* out, tl::int64_t n, Scalars scalars, const In*... in) {
  const auto offsets = tl::program_id(0) * BLOCK_SIZE + tl::arange<BLOCK_SIZE>();
  const auto mask = offsets < n;
  tl::store(out + offsets, tl::cast<Out>(Functor::template apply<Compute>(scalars, tl::cast<Compute>(tl::load(in + offsets, mask))...)),
            mask);
}

/// One operand's column offsets, with its stride's kind in the type.
template <int kKind, int kColumns>
KILN_DEVICE auto column_offsets(tl::int64_t first_column, tl::int64_t stride) {
  const auto columns = tl::expand_dims<0>(first_column + tl::arange<kColumns>());
  if constexpr (kKind == kStrideZero)
    return columns * 0;
  else if constexpr (kKind == kStrideOne)
    return columns;
  else
    return columns * stride;
}

/// Column block, row block and every operand's outer offset of a program. Index is 32 bits wide where the grid allows: a 64-bit division costs a GPU
/// four times a 32-bit one.
template <typename Index, int kOperands>
KILN_DEVICE void split_program(const StridedIteration& iteration, Index program, tl::int64_t& column_block, tl::int64_t& row_block,
                               tl::int64_t (&outer)[kOperands]) {
  const Index column_blocks = static_cast<Index>(iteration.column_blocks), row_blocks = static_cast<Index>(iteration.row_blocks);
  Index rest = program / column_blocks;
  column_block = static_cast<tl::int64_t>(program - rest * column_blocks);
  const Index above = rest / row_blocks;
  row_block = static_cast<tl::int64_t>(rest - above * row_blocks);
  rest = above;
  for (int dim = 0; dim < iteration.num_outer_dims; ++dim) {
    const Index extent = static_cast<Index>(iteration.outer_extents[dim]);
    const Index quotient = rest / extent;
    const tl::int64_t coordinate = static_cast<tl::int64_t>(rest - quotient * extent);
    KILN_UNROLL for (int operand = 0; operand < kOperands; ++operand)
      outer[operand] += coordinate * iteration.outer_strides[operand][dim];
    rest = quotient;
  }
}

/// One 2-D tile of the two inner dimensions per program.
template <typename Functor, typename Compute, int BLOCK_M, int BLOCK_N, int STRIDE_KINDS, typename Out, typename... In>
KILN_KERNEL void elementwise_strided_kernel(Out* out, StridedIteration iteration, Scalars scalars, const In*... in) {
  constexpr int kOperands = 1 + sizeof...(In);
  const tl::int64_t program = tl::program_id(0);
  tl::int64_t column_block, row_block, outer[kOperands] = {};
  if (tl::num_programs(0) <= 0x7fffffff)
    split_program<unsigned int, kOperands>(iteration, static_cast<unsigned int>(program), column_block, row_block, outer);
  else
    split_program<unsigned long long, kOperands>(iteration, static_cast<unsigned long long>(program), column_block, row_block, outer);

  const tl::int64_t first_row = row_block * BLOCK_M, first_column = column_block * BLOCK_N;
  const auto rows = tl::expand_dims<1>(first_row + tl::arange<BLOCK_M>());
  const auto columns = tl::expand_dims<0>(first_column + tl::arange<BLOCK_N>());
  const auto mask = (rows < iteration.rows) & (columns < iteration.columns);
  const auto offsets = [&]<int kOperand>() {
    return outer[kOperand] + rows * iteration.row_strides[kOperand] +
           column_offsets<(STRIDE_KINDS >> (2 * kOperand)) & 3, BLOCK_N>(first_column, iteration.column_strides[kOperand]);
  };
  const auto run = [&]<int... kInput>(tl::Sequence<kInput...>) {
    tl::store(out + offsets.template operator()<0>(),
              tl::cast<Out>(Functor::template apply<Compute>(
                  scalars, tl::cast<Compute>(tl::load(in + offsets.template operator()<1 + kInput>(), mask))...)),
              mask);
  };
  run(tl::make_sequence<sizeof...(In)>());
}

/// Coordinates per element, for shapes that would leave a two-dimensional tile mostly empty.
template <typename Functor, typename Compute, int BLOCK_SIZE, typename Out, typename... In>
KILN_KERNEL void elementwise_indexed_kernel(Out* out, IndexedIteration iteration, Scalars scalars, const In*... in) {
  constexpr int kOperands = 1 + sizeof...(In);
  const auto linear = tl::program_id(0) * BLOCK_SIZE + tl::arange<BLOCK_SIZE>();
  const auto mask = linear < iteration.n;
  auto rest = tl::cast<tl::uint32_t>(linear);
  decltype(tl::zeros<tl::int64_t, BLOCK_SIZE>()) offsets[kOperands];
  for (int operand = 0; operand < kOperands; ++operand) offsets[operand] = tl::zeros<tl::int64_t, BLOCK_SIZE>();
  for (int dim = 0; dim < iteration.num_dims; ++dim) {
    const auto quotient = (tl::umulhi(rest, iteration.multipliers[dim]) + rest) >> iteration.shifts[dim];
    const auto coordinate = tl::cast<tl::int64_t>(rest - quotient * iteration.extents[dim]);
    KILN_UNROLL for (int operand = 0; operand < kOperands; ++operand)
      offsets[operand] = offsets[operand] + coordinate * iteration.strides[operand][dim];
    rest = quotient;
  }
  const auto run = [&]<int... kInput>(tl::Sequence<kInput...>) {
    tl::store(out + offsets[0],
              tl::cast<Out>(Functor::template apply<Compute>(
                  scalars, tl::cast<Compute>(tl::load(in + offsets[1 + kInput], mask))...)),
              mask);
  };
  run(tl::make_sequence<sizeof...(In)>());
}

}  // namespace kiln::ops
