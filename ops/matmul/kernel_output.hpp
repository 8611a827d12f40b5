#pragma once

#include <kiln/tl.hpp>

#include "compiler/tl/dot.hpp"
#include "ops/common/kernel_place.hpp"
#include "ops/matmul/functors.hpp"
#include "ops/matmul/iteration.hpp"

// What kernels of the family share: which tile a program makes, and how it gets to memory.

// A kernel of the family that has `programs` on a multiprocessor at least. Told nothing, ptxas spills a few registers
// where it sees room for another program then, and leaves that room unused where it does not.
#if defined(KILN_TARGET_CUDA)
#define KILN_MATMUL_KERNEL(programs) __global__ __launch_bounds__(32 * KILN_NUM_WARPS, programs)
#else
#define KILN_MATMUL_KERNEL(programs) KILN_KERNEL
#endif

namespace kiln::ops {

/// The program's tile of the output, and where its matrices begin.
struct MatmulPlace {
  tl::int64_t row, column;  ///< of the tile's first element
  tl::int64_t batch_offsets[kMatmulMatrices];
};

/// Tiles are numbered down GROUP_M blocks of rows, then along the columns: programs that run at the same time share
/// rows of a and columns of b, which the L2 then reads once.
template <int BLOCK_M, int BLOCK_N, int GROUP_M, bool kHasBatch>
KILN_DEVICE MatmulPlace matmul_place(const MatmulIteration& it, ProgramNumber number) {
  MatmulPlace place{};
  if constexpr (kHasBatch) {
    const ProgramNumber tiles_of_a_matrix = static_cast<ProgramNumber>(it.row_blocks * it.column_blocks);
    ProgramNumber batch = number / tiles_of_a_matrix;
    number -= batch * tiles_of_a_matrix;
    KILN_NO_UNROLL for (int dim = 0; dim < it.num_batch_dims; ++dim) {
      const tl::int64_t index = take_coordinate(batch, it.batch_extents[dim]);
      KILN_UNROLL for (int matrix = 0; matrix < kMatmulMatrices; ++matrix) place.batch_offsets[matrix] +=
          index * it.batch_strides[matrix][dim];
    }
  }
  const ProgramNumber rows = static_cast<ProgramNumber>(it.row_blocks);
  const ProgramNumber tiles_of_a_group = GROUP_M * static_cast<ProgramNumber>(it.column_blocks);
  const ProgramNumber group = number / tiles_of_a_group;
  const ProgramNumber first_row = group * GROUP_M;
  const ProgramNumber rows_of_group = rows - first_row < GROUP_M ? rows - first_row : GROUP_M;
  number -= group * tiles_of_a_group;
  const ProgramNumber column = number / rows_of_group;
  place.row = static_cast<tl::int64_t>(first_row + (number - column * rows_of_group)) * BLOCK_M;
  place.column = static_cast<tl::int64_t>(column) * BLOCK_N;
  return place;
}

/// How a matrix lies in memory, as far as kernels are compiled for it.
enum MatrixOrder { kColumnsContiguous, kRowsContiguous, kStrided };

/// rows * row_stride + columns * column_stride, with the contiguous stride in the type.
template <int kOrder>
KILN_DEVICE auto matrix_offsets(const auto& rows, const auto& columns, tl::int64_t row_stride,
                                tl::int64_t column_stride) {
  if constexpr (kOrder == kColumnsContiguous)
    return rows * row_stride + columns;
  else if constexpr (kOrder == kRowsContiguous)
    return rows + columns * column_stride;
  else
    return rows * row_stride + columns * column_stride;
}

/// The elements at `pointers`, which broadcast to acc's shape, in acc's layout. `mask` is of the pointers' shape,
/// `whole_mask` of acc's.
template <typename Acc>
KILN_DEVICE auto load_beside(const Acc& acc, const auto& pointers, const auto& mask, const auto& whole_mask) {
  if constexpr (tl::is_same<typename Acc::layout, tl::DefaultLayout<typename Acc::shape>>)
    return tl::load(pointers, whole_mask);
  else
    return tl::load_like(acc, pointers, mask);
}

/// The epilogue over the accumulator's elements, and the result to memory.
template <int kOutOrder, typename Epilogue, typename Acc, typename Addend, typename Out>
KILN_DEVICE void finish_tile(const Epilogue& epilogue, const Acc& acc, const MatmulIteration& it,
                             const MatmulPlace& place, const Addend* addend, Out* out) {
  using Compute = typename Epilogue::Compute;
  using S = typename Acc::shape;
  const auto rows = tl::expand_dims<1>(tl::arange<S::kRows>());
  const auto columns = tl::expand_dims<0>(tl::arange<S::kColumns>());
  const auto column_mask = columns < it.n - place.column;
  const auto mask = (rows < it.m - place.row) & column_mask;
  const auto offset_of = [&](int matrix) {
    return place.batch_offsets[matrix] + place.row * it.row_strides[matrix] + place.column * it.column_strides[matrix];
  };
  const auto pointers =
      out + offset_of(kMatmulOut) +
      matrix_offsets<kOutOrder>(rows, columns, it.row_strides[kMatmulOut], it.column_strides[kMatmulOut]);
  const auto product = tl::cast<Compute>(acc);
  if constexpr (Epilogue::kAddend == kNoAddend) {
    const auto result = tl::map_registers([&](Compute x) { return epilogue.apply(x); }, product);
    tl::store(pointers, tl::cast<Out>(result), mask);
  } else {
    const Addend* const first = addend + offset_of(kMatmulAddend);
    const auto added = [&] {
      if constexpr (Epilogue::kAddend == kRowAddend)
        return load_beside(acc, first + columns, column_mask, mask);
      else
        return load_beside(acc,
                           first + (rows * it.row_strides[kMatmulAddend] + columns * it.column_strides[kMatmulAddend]),
                           mask, mask);
    }();
    const auto result =
        tl::map_registers([&](Compute x, Addend y) { return epilogue.apply(x, tl::cast<Compute>(y)); }, product, added);
    tl::store(pointers, tl::cast<Out>(result), mask);
  }
}

/// What a part of k leaves for matmul_combine_kernel: its sums as they are.
template <typename Sum>
struct PartialSum {
  using Compute = Sum;
  static constexpr int kAddend = kNoAddend;
  static constexpr bool kIsAffine = false;
  KILN_DEVICE Sum apply(Sum product) const { return product; }
};

/// Adds the parts in their order, and applies the epilogue. The parts lie as m rows of n columns, matmul_partial_pitch
/// apart, batch by batch, and split_stride apart.
template <typename Epilogue, int kOutOrder, int BLOCK_M, int BLOCK_N, bool kHasBatch, typename Sum, typename Addend,
          typename Out>
KILN_KERNEL void matmul_combine_kernel(const Sum* partial_sums, const Addend* addend, Out* out, const float* scale_a,
                                       const float* scale_b, MatmulIteration it,
                                       MatmulScalars<typename Epilogue::Compute> scalars) {
  tl::wait_for_previous();
  Epilogue epilogue{scalars};
  if constexpr (Epilogue::kScaled) epilogue.scale(tl::load(scale_a), tl::load(scale_b));
  const ProgramNumber number = static_cast<ProgramNumber>(tl::program_id(0));
  const MatmulPlace place = matmul_place<BLOCK_M, BLOCK_N, 1, kHasBatch>(it, number);
  const auto rows = tl::expand_dims<1>(tl::arange<BLOCK_M>());
  const auto columns = tl::expand_dims<0>(tl::arange<BLOCK_N>());
  constexpr int kBytes = static_cast<int>(sizeof(Sum));
  const tl::int64_t pitch = matmul_partial_pitch(it.n, kBytes) & -(16 / kBytes);  // as the compiler cannot see
  // What lies between n and the next row is read as well, and goes nowhere.
  const auto mask = (rows < it.m - place.row) & (columns < pitch - place.column);
  tl::int64_t first = place.row * pitch + place.column;
  if constexpr (kHasBatch)
    first += static_cast<tl::int64_t>(number / static_cast<ProgramNumber>(it.row_blocks * it.column_blocks)) *
             (it.m * pitch);
  const auto load_part = [&](tl::int64_t part) {
    return tl::load(partial_sums + first + part * it.split_stride + (rows * pitch + columns), mask);
  };
  // On a GPU many are on their way before the first is added: one after the other, 64 parts took 25 us.
#if defined(KILN_TARGET_CUDA)
  constexpr int kAtOnce = 64 / static_cast<int>(sizeof(Sum));
#else
  constexpr int kAtOnce = 1;
#endif
  auto sum = load_part(0);
  KILN_NO_UNROLL for (tl::int64_t part = 1; part < it.num_splits; part += kAtOnce) {
    decltype(sum) loaded[kAtOnce];
    KILN_UNROLL for (int i = 0; i < kAtOnce; ++i) loaded[i] =
        load_part(part + i < it.num_splits ? part + i : it.num_splits - 1);
    KILN_UNROLL for (int i = 0; i < kAtOnce; ++i) if (part + i < it.num_splits) sum = sum + loaded[i];
  }
  finish_tile<kOutOrder>(epilogue, sum, it, place, addend, out);
}

}  // namespace kiln::ops
