#pragma once

#include "compiler/tl/cpu/dot_pack.hpp"
#include "compiler/tl/cpu/register_block.hpp"
#include "compiler/tl/cpu/word_pack.hpp"
#include "ops/matmul/kernel_output.hpp"

// What products on the CPU share whose sums go from registers to the output: kernel_outer.hpp, kernel_inner.hpp and
// kernel_stream.hpp, for few or narrow rows and wherever all of k fits near the core. Tiles (kernel_tile.hpp) fill up
// to powers of two, and keep their sums in memory. A last block of rows or columns begins before the end of the one
// before it where it would stand out: what both make is the same bits twice, stored by one program.

namespace kiln::ops {

/// A program's part of the output, [row, row_end) x [column, column_end).
struct DirectPart {
  tl::int64_t row, row_end, column, column_end;
};

/// Part `index` of `parts` of an extent, in whole `unit`s; the last takes what is left over.
KILN_DEVICE void take_part(tl::int64_t extent, tl::int64_t unit, tl::int64_t parts, tl::int64_t index,
                           tl::int64_t& begin, tl::int64_t& end) {
  const tl::int64_t units = extent / unit;
  begin = units * index / parts * unit;
  end = index + 1 == parts ? extent : units * (index + 1) / parts * unit;
}

template <int kRowUnit, int kColumnUnit, bool kHasBatch>
KILN_DEVICE DirectPart direct_part(const MatmulIteration& it, MatmulPlace& place) {
  place = matmul_place<1, 1, 1, kHasBatch>(it, static_cast<ProgramNumber>(tl::program_id(0)));
  DirectPart part;
  take_part(it.m, kRowUnit, it.row_blocks, place.row, part.row, part.row_end);
  take_part(it.n, kColumnUnit, it.column_blocks, place.column, part.column, part.column_end);
  return part;
}

/// Sums of one row through the epilogue to memory; addend and out at its first column.
template <int kOutOrder, typename Epilogue, typename C, typename Count, typename Addend, typename Out>
KILN_DEVICE void finish_row(const Epilogue& epilogue, const C* sums, Count count, const MatmulIteration& it,
                            const Addend* addend, Out* out) {
  using Compute = typename Epilogue::Compute;
  const tl::int64_t out_stride = kOutOrder == kColumnsContiguous ? 1 : it.column_strides[kMatmulOut];
  const tl::int64_t addend_stride = Epilogue::kAddend == kRowAddend ? 1 : it.column_strides[kMatmulAddend];
  for (int c = 0; c < count; ++c) {
    const Compute sum = tl::cast<Compute>(sums[c]);
    if constexpr (Epilogue::kAddend == kNoAddend)
      out[c * out_stride] = tl::cast<Out>(epilogue.apply(sum));
    else
      out[c * out_stride] = tl::cast<Out>(epilogue.apply(sum, tl::cast<Compute>(addend[c * addend_stride])));
  }
}

/// Whether sums go through the epilogue as vectors, from registers to memory: it multiplies and adds, nothing is
/// converted, and all of it is contiguous.
template <typename Epilogue, int kOutOrder, typename C, typename Addend, typename Out>
inline constexpr bool finishes_lanes =
    Epilogue::kIsAffine && kOutOrder == kColumnsContiguous && tl::is_same<Out, C> &&
    tl::is_same<typename Epilogue::Compute, C> &&
    (Epilogue::kAddend == kNoAddend || (Epilogue::kAddend == kRowAddend && tl::is_same<Addend, C>));

/// Where the operands of a program's epilogue lie.
template <typename Addend, typename Out>
struct DirectOutput {
  const Addend* addend;
  Out* out;

  KILN_DEVICE DirectOutput(const Addend* addend_base, Out* out_base, const MatmulPlace& place)
      : addend(addend_base + place.batch_offsets[kMatmulAddend]), out(out_base + place.batch_offsets[kMatmulOut]) {}

  /// The first kCount lanes, which begin at `column`.
  template <int kCount, typename Epilogue, typename Lanes>
  KILN_DEVICE void finish_lanes(const Epilogue& epilogue, const Lanes& sums, const MatmulIteration& it, tl::int64_t row,
                                tl::int64_t column) const {
    Lanes result = epilogue.scalars.alpha * sums;
    if constexpr (Epilogue::kAddend == kRowAddend) {
      Lanes added{};
      __builtin_memcpy(&added, addend + column, sizeof(Out) * kCount);
      result = __builtin_elementwise_fma(Lanes(epilogue.scalars.beta), added, result);
    }
    __builtin_memcpy(out + row * it.row_strides[kMatmulOut] + column, &result, sizeof(Out) * kCount);
  }

  template <int kOutOrder, typename Epilogue, typename C, typename Count>
  KILN_DEVICE void finish(const Epilogue& epilogue, const C* sums, Count count, const MatmulIteration& it,
                          tl::int64_t row, tl::int64_t column) const {
    finish_row<kOutOrder>(epilogue, sums, count, it,
                          addend + row * it.row_strides[kMatmulAddend] + column * it.column_strides[kMatmulAddend],
                          out + row * it.row_strides[kMatmulOut] + column * it.column_strides[kMatmulOut]);
  }
};

/// add<false>(0, length), or where kIsLong `block` cleared and add<true>(k, count) for each part of the length.
template <bool kIsLong, int kPart, typename C, int kRows, int kColumns>
KILN_DEVICE void sum_in_parts(tl::int64_t length, C (&block)[kRows][kColumns], const auto& add) {
  if constexpr (!kIsLong) {
    add.template operator()<false>(0, length);
  } else {
    __builtin_memset(block, 0, sizeof(block));
    KILN_NO_UNROLL for (tl::int64_t k = 0; k < length; k += kPart)
        add.template operator()<true>(k, length - k < kPart ? length - k : kPart);
  }
}

KILN_DEVICE constexpr int padded_to_squares(int extent) {
  return (extent + kPanelRows - 1) / kPanelRows * kPanelRows;
}

/// A matrix of kOrder with the contiguous stride in its type, passed on to `use`.
template <int kOrder, typename T>
KILN_DEVICE void with_view(const T* from, tl::int64_t row_stride, tl::int64_t column_stride, int rows, int columns,
                           const auto& use) {
  if constexpr (kOrder == kColumnsContiguous)
    use(tl::MatrixView<T, tl::int64_t, tl::Constant<1>>{from, row_stride, {}, rows, columns});
  else if constexpr (kOrder == kRowsContiguous)
    use(tl::MatrixView<T, tl::Constant<1>, tl::int64_t>{from, {}, column_stride, rows, columns});
  else
    use(tl::MatrixView<T, tl::int64_t, tl::int64_t>{from, row_stride, column_stride, rows, columns});
}

/// kWidth columns of b from `from` on, of which `columns` exist, side by side in a panel; `depth` rows of them.
template <int kBOrder, int kWidth, typename B, typename C>
KILN_DEVICE void pack_panel(const B* from, const MatmulIteration& it, int depth, int columns, C* panel) {
  with_view<kBOrder>(
      from, it.row_strides[kMatmulB], it.column_strides[kMatmulB], depth, columns, [&](const auto& view) {
        if constexpr (tl::kInWords<C>)
          tl::pack_words<C>(view, depth, kWidth, reinterpret_cast<tl::uint32_t*>(panel), kWidth);
        else if constexpr (kWidth % tl::TransposeBlock<B>::kSide == 0 && kWidth % tl::TransposeBlock<C>::kSide == 0)
          tl::pack_matrix<C>(view, depth, kWidth, panel, kWidth);
        else
          tl::pack_singly<C>(view, depth, kWidth, panel, kWidth);
      });
}

/// Rows of a side by side, `stride` apart; there is room for a multiple of kPanelRows of them and of k.
template <int kAOrder, typename A, typename C>
KILN_DEVICE void pack_rows(const A* from, const MatmulIteration& it, int rows, int depth, C* to, tl::int64_t stride) {
  with_view<kAOrder>(from, it.row_strides[kMatmulA], it.column_strides[kMatmulA], rows, depth, [&](const auto& view) {
    tl::pack_matrix<C>(view, padded_to_squares(rows), padded_to_squares(depth), to, stride);
  });
}

/// Of `it` and its operands what the program's part of k is, where axis 1 of the grid has several: see
/// add_combination.
template <typename A, typename B, typename Sum>
KILN_DEVICE void take_part_of_k(MatmulIteration& it, const A*& a, const B*& b, Sum*& partial_sums) {
  const tl::int64_t split = tl::program_id(1), begin = split * it.k_per_split;
  a += begin * it.column_strides[kMatmulA];
  b += begin * it.row_strides[kMatmulB];
  partial_sums += split * it.split_stride;
  it.k = it.k - begin < it.k_per_split ? it.k - begin : it.k_per_split;
}

}  // namespace kiln::ops
