#pragma once

#include "compiler/tl/memory.hpp"
#include "ops/common/iteration.hpp"

namespace kiln::ops {

/// What a kernel that counts its elements out is compiled for: how many dimensions they are of, the kind of each
/// operand's stride along the innermost (as in STRIDE_KINDS), and whether that has so many elements that of a thread's
/// neighbouring ones no more than two rows have a part.
template <int NUM_DIMS, int STRIDE_KINDS, bool LONG_ROWS>
struct Counting {
  static constexpr int kDims = NUM_DIMS;
  static constexpr bool kLongRows = LONG_ROWS;

  template <int kOperand>
  KILN_DEVICE static tl::int32_t innermost_stride(const IndexedIteration& iteration) {
    constexpr int kKind = (STRIDE_KINDS >> (2 * kOperand)) & 3;
    return kKind == kStrideAny ? iteration.strides[kOperand][0] : kKind;
  }
};

/// n / extents[dim].
KILN_DEVICE tl::uint32_t quotient_of(const IndexedIteration& iteration, int dim, tl::uint32_t n) {
  return (tl::scalar::umulhi(n, iteration.multipliers[dim]) + n) >> iteration.shifts[dim];
}

/// Offset in one operand of index 0 along the innermost dimension, at `row` of all others.
template <typename C, int kOperand>
KILN_DEVICE tl::int32_t row_offset(const IndexedIteration& iteration, tl::uint32_t row) {
  tl::int32_t offset = 0;
  KILN_UNROLL for (int dim = 1; dim < C::kDims; ++dim) {
    // What is left for the outermost dimension is its coordinate.
    const tl::uint32_t quotient = dim + 1 < C::kDims ? quotient_of(iteration, dim, row) : 0;
    offset += static_cast<tl::int32_t>(row - quotient * iteration.extents[dim]) * iteration.strides[kOperand][dim];
    row = quotient;
  }
  return offset;
}

/// Where the elements that `numbers`, a symbolic tile, counts out lie in one operand.
template <typename C, int kOperand, typename Numbers>
KILN_DEVICE auto counted_offsets(const IndexedIteration& iteration, const Numbers& numbers) {
  const tl::int32_t stride = C::template innermost_stride<kOperand>(iteration);
  const tl::uint32_t extent = iteration.extents[0];
  auto offsets = tl::cast<tl::int32_t>(numbers);
#if defined(KILN_TARGET_CUDA)
  using L = typename decltype(offsets)::layout;
  constexpr bool kHasRuns = tl::is_same<typename Numbers::column_stride_type, tl::Constant<1>>;
  if constexpr (C::kLongRows && kHasRuns) {
    // A run of a thread's begins in one row and may end in the next.
    KILN_UNROLL for (int first = 0; first < L::kRegisters; first += L::kVector) {
      const tl::uint32_t number = static_cast<tl::uint32_t>(offsets.registers[first]);
      const tl::uint32_t row = quotient_of(iteration, 0, number);
      const tl::int32_t column = static_cast<tl::int32_t>(number - row * extent);
      const tl::int32_t room = static_cast<tl::int32_t>(extent) - column;
      const tl::int32_t here = row_offset<C, kOperand>(iteration, row) + column * stride;
      const tl::int32_t next = row_offset<C, kOperand>(iteration, row + 1) - room * stride;
      KILN_UNROLL for (int i = 0; i < L::kVector; ++i) offsets.registers[first + i] =
          (i < room ? here : next) + i * stride;
    }
    return offsets;
  }
#endif
  // A function of numbers, mapped: as many operators on tiles would take four times as long to compile.
  return tl::map_elementwise(
      [&](tl::int32_t number) {
        const tl::uint32_t n = static_cast<tl::uint32_t>(number);
        const tl::uint32_t row = C::kDims > 1 ? quotient_of(iteration, 0, n) : 0;
        return row_offset<C, kOperand>(iteration, row) + static_cast<tl::int32_t>(n - row * extent) * stride;
      },
      offsets);
}

/// Where those elements are. LINEAR: a bit for each operand that lies in the order in which elements are counted, and
/// is accessed as dense arrays are.
template <typename C, int kOperand, int LINEAR, typename T, typename Numbers>
KILN_DEVICE auto counted_places(const IndexedIteration& iteration, T* data, const Numbers& numbers) {
  if constexpr ((LINEAR >> kOperand & 1) != 0)
    return data + numbers;
  else
    return data + counted_offsets<C, kOperand>(iteration, numbers);
}

}  // namespace kiln::ops
