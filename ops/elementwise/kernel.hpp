#pragma once

#include <kiln/tl.hpp>

#include "ops/elementwise/functors.hpp"
#include "ops/elementwise/iteration.hpp"

namespace kiln::ops {

// The pointers come before the scalars, which most functors do not read: the GPU then finds all it needs in one line of
// its constant cache.

/// out[i] = Functor(in[i]...) over dense tensors of n elements in one order. Inputs are cast to Compute, the result to
/// Out.
template <typename Functor, typename Compute, int BLOCK_SIZE, typename Out, typename... In>
KILN_KERNEL void elementwise_contiguous_kernel(Out* out, tl::int64_t n, const In*... in, Scalars scalars) {
  const auto offsets = tl::program_id(0) * BLOCK_SIZE + tl::arange<BLOCK_SIZE>();
  const auto mask = offsets < n;
  tl::store(
      out + offsets,
      tl::cast<Out>(Functor::template apply<Compute>(scalars, tl::cast<Compute>(tl::load(in + offsets, mask))...)),
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

#if defined(KILN_TARGET_CUDA)
/// A GPU's grid has fewer than 2^31 programs, and a 64-bit division costs it four times a 32-bit one, at run time and
/// to compile.
using ProgramIndex = unsigned int;
#else
using ProgramIndex = unsigned long long;
#endif

/// Column block, row block and every operand's outer offset of a program.
template <int kOperands>
KILN_DEVICE void split_program(const StridedIteration& iteration, tl::int64_t program, tl::int64_t& column_block,
                               tl::int64_t& row_block, tl::int64_t (&outer)[kOperands]) {
  const auto divide = [](ProgramIndex& rest, tl::int64_t extent) {
    const ProgramIndex divisor = static_cast<ProgramIndex>(extent), quotient = rest / divisor;
    const tl::int64_t coordinate = static_cast<tl::int64_t>(rest - quotient * divisor);
    rest = quotient;
    return coordinate;
  };
  ProgramIndex rest = static_cast<ProgramIndex>(program);
  column_block = divide(rest, iteration.column_blocks);
  row_block = divide(rest, iteration.row_blocks);
  KILN_NO_UNROLL for (int dim = 0; dim < iteration.num_outer_dims; ++dim) {
    const tl::int64_t coordinate = divide(rest, iteration.outer_extents[dim]);
    KILN_UNROLL for (int operand = 0; operand < kOperands; ++operand) outer[operand] +=
        coordinate * iteration.outer_strides[operand][dim];
  }
}

/// One 2-D tile of the two inner dimensions per program.
template <typename Functor, typename Compute, int BLOCK_M, int BLOCK_N, int STRIDE_KINDS, typename Out, typename... In>
KILN_KERNEL void elementwise_strided_kernel(Out* out, StridedIteration iteration, const In*... in, Scalars scalars) {
  constexpr int kOperands = 1 + sizeof...(In);
  tl::int64_t column_block, row_block, outer[kOperands] = {};
  split_program<kOperands>(iteration, tl::program_id(0), column_block, row_block, outer);

  const tl::int64_t first_row = row_block * BLOCK_M, first_column = column_block * BLOCK_N;
  const auto rows = tl::expand_dims<1>(first_row + tl::arange<BLOCK_M>());
  const auto columns = tl::expand_dims<0>(first_column + tl::arange<BLOCK_N>());
  const auto mask = [&] {
    if constexpr (BLOCK_M == 1)  // the row blocks are the rows
      return columns < iteration.columns;
    else
      return (rows < iteration.rows) & (columns < iteration.columns);
  }();
  const auto offsets = [&]<int kOperand>() {
    return outer[kOperand] + rows * iteration.row_strides[kOperand] + column_offsets <
                   (STRIDE_KINDS >> (2 * kOperand)) &
               3,
           BLOCK_N > (first_column, iteration.column_strides[kOperand]);
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
KILN_KERNEL void elementwise_indexed_kernel(Out* out, IndexedIteration iteration, const In*... in, Scalars scalars) {
  constexpr int kOperands = 1 + sizeof...(In);
  const auto linear = tl::program_id(0) * BLOCK_SIZE + tl::arange<BLOCK_SIZE>();
  const auto mask = linear < iteration.n;
  auto rest = tl::cast<tl::uint32_t>(linear);
  decltype(tl::zeros<tl::int32_t, BLOCK_SIZE>()) offsets[kOperands];
  KILN_UNROLL for (int operand = 0; operand < kOperands; ++operand) offsets[operand] =
      tl::zeros<tl::int32_t, BLOCK_SIZE>();
  KILN_NO_UNROLL for (int dim = 0; dim < iteration.num_dims; ++dim) {
    const auto quotient = (tl::umulhi(rest, iteration.multipliers[dim]) + rest) >> iteration.shifts[dim];
    const auto coordinate = tl::cast<tl::int32_t>(rest - quotient * iteration.extents[dim]);
    KILN_UNROLL for (int operand = 0; operand < kOperands; ++operand) offsets[operand] =
        offsets[operand] + coordinate * iteration.strides[operand][dim];
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
