#pragma once

#include "compiler/tl/cpu/dot_pack.hpp"
#include "compiler/tl/cpu/register_block.hpp"
#include "ops/matmul/kernel_output.hpp"

// Products on the CPU that go from the operands to the output with nothing in between but registers: for few or narrow
// rows, and wherever all of k fits near the core. Tiles (kernel_tile.hpp) fill up to powers of two, and keep
// their sums in memory. A last block of rows or columns begins before the end of the one before it where it would stand
// out: what both make is the same bits twice, stored by one program.

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

/// Products that are added up one after the other; the sums of more are sums of such sums, whose rounding errors grow
/// with their number and not with k.
inline constexpr int kPartOfK = 256;

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

/// kWidth columns of b from `from` on, of which `columns` exist, side by side in a panel; `depth` rows of them.
template <int kBOrder, int kWidth, typename B, typename C>
KILN_DEVICE void pack_panel(const B* from, const MatmulIteration& it, int depth, int columns, C* panel) {
  const auto pack = [&](auto row_stride, auto column_stride) {
    const tl::MatrixView<B, decltype(row_stride), decltype(column_stride)> view{from, row_stride, column_stride, depth,
                                                                                columns};
    if constexpr (kWidth % 16 == 0)
      tl::pack_matrix<C>(view, depth, kWidth, panel, kWidth);
    else
      tl::pack_singly<C>(view, depth, kWidth, panel, kWidth);
  };
  if constexpr (kBOrder == kColumnsContiguous)
    pack(it.row_strides[kMatmulB], tl::Constant<1>{});
  else if constexpr (kBOrder == kRowsContiguous)
    pack(tl::Constant<1>{}, it.column_strides[kMatmulB]);
  else
    pack(it.row_strides[kMatmulB], it.column_strides[kMatmulB]);
}

/// As pack_panel for a k of kDepth, at most 16, that is contiguous in b: squares as small as hold it.
template <int kDepth, int kWidth, typename C>
KILN_DEVICE void pack_shallow_panel(const C* from, const MatmulIteration& it, int columns, C* panel) {
  constexpr int kLeast = kDepth <= 4 ? 4 : kDepth <= 8 ? 8 : 16;
  constexpr int kSide = kLeast < kWidth ? kLeast : kWidth;
  const tl::int64_t stride = it.column_strides[kMatmulB];
  if (kDepth <= kSide && columns == kWidth) {
    KILN_NO_UNROLL for (int c = 0; c < kWidth; c += kSide)
        tl::TransposeBlock<C, kSide>::template run_some<(kDepth < kSide ? kDepth : kSide)>(from + c * stride, stride,
                                                                                           panel + c, kWidth);
  } else {
    const tl::MatrixView<C, tl::Constant<1>, tl::int64_t> view{from, {}, stride, kDepth, columns};
    tl::pack_singly<C>(view, kDepth, kWidth, panel, kWidth);
  }
}

/// Rows of a side by side, `stride` apart; there is room for a multiple of 16 of them and of k.
template <int kAOrder, typename A, typename C>
KILN_DEVICE void pack_rows(const A* from, const MatmulIteration& it, int rows, int depth, C* to, tl::int64_t stride) {
  const auto pack = [&](auto row_stride, auto column_stride) {
    const tl::MatrixView<A, decltype(row_stride), decltype(column_stride)> view{from, row_stride, column_stride, rows,
                                                                                depth};
    tl::pack_matrix<C>(view, (rows + 15) / 16 * 16, (depth + 15) / 16 * 16, to, stride);
  };
  if constexpr (kAOrder == kColumnsContiguous)
    pack(it.row_strides[kMatmulA], tl::Constant<1>{});
  else if constexpr (kAOrder == kRowsContiguous)
    pack(tl::Constant<1>{}, it.column_strides[kMatmulA]);
  else
    pack(it.row_strides[kMatmulA], it.column_strides[kMatmulA]);
}

/// Of `it` and its operands what the program's part of k is, where axis 1 of the grid has several: see
/// matmul_partial_kernel.
template <typename A, typename B, typename Sum>
KILN_DEVICE void take_part_of_k(MatmulIteration& it, const A*& a, const B*& b, Sum*& partial_sums) {
  const tl::int64_t split = tl::program_id(1), begin = split * it.k_per_split;
  a += begin * it.column_strides[kMatmulA];
  b += begin * it.row_strides[kMatmulB];
  partial_sums += split * it.split_stride;
  it.k = it.k - begin < it.k_per_split ? it.k - begin : it.k_per_split;
}

/// Blocks of ROWS x COLUMNS, vectors along the columns of b, of which there are WIDTH where COLUMNS are all there are;
/// the columns that are left over, if there are any, in a block of TAIL. b is read where it lies (DEPTH 0: its columns
/// are contiguous), or by way of a panel of at most DEPTH rows; SHALLOW_K is k where it is small and contiguous.
/// kRowsFirst: the output is written row by row, which is what counts where k is small.
template <int kAOrder, int kBOrder, int kOutOrder, int ROWS, int WIDTH, int COLUMNS, int TAIL, int DEPTH, int UNROLL,
          int SHALLOW_K, bool kRowsFirst, bool kIsLong, bool kHasBatch, typename Epilogue, typename C, typename Addend,
          typename Out>
KILN_DEVICE void multiply_outer(const Epilogue& epilogue, const C* a, const C* b, const Addend* addend, Out* out,
                                const MatmulIteration& it) {
  MatmulPlace place;
  const DirectPart part = direct_part<ROWS, COLUMNS, kHasBatch>(it, place);
  const DirectOutput<Addend, Out> output(addend, out, place);
  const C* const left = a + place.batch_offsets[kMatmulA];
  const C* const right = b + place.batch_offsets[kMatmulB];
  const tl::int64_t a_step = kAOrder == kColumnsContiguous ? 1 : it.column_strides[kMatmulA];
  alignas(64) C panel[DEPTH > 0 ? DEPTH * WIDTH : 1];
  const auto make_block = [&]<int kWidth, int kColumns>(tl::Constant<kWidth>, tl::Constant<kColumns>, tl::int64_t next,
                                                        tl::int64_t column, const C* from, tl::int64_t stride) {
    const tl::int64_t row = next + ROWS <= part.row_end ? next : part.row_end - ROWS;
    const auto sum = [&](tl::int64_t k, tl::int64_t count, const auto& put) {
      tl::sum_rows<kWidth, DEPTH == 0 ? kColumns : kWidth, UNROLL>(
          count, left + row * it.row_strides[kMatmulA] + k * a_step, it.row_strides[kMatmulA], a_step,
          from + k * stride, stride, put, tl::make_sequence<ROWS>());
    };
    if constexpr (!kIsLong && finishes_lanes<Epilogue, kOutOrder, C, Addend, Out>) {
      sum(0, it.k, [&](auto r, const auto& lanes) {
        output.template finish_lanes<kColumns>(epilogue, lanes, it, row + r, column);
      });
    } else {
      C block[ROWS][kWidth];
      sum_in_parts<kIsLong, kPartOfK>(it.k, block, [&]<bool kAdds>(tl::int64_t k, tl::int64_t count) {
        sum(k, count, [&](auto r, const auto& lanes) { tl::put_lanes<kAdds>(lanes, block[r]); });
      });
      KILN_NO_UNROLL for (int r = 0; r < ROWS; ++r)
          output.template finish<kOutOrder>(epilogue, block[r], tl::Constant<kColumns>{}, it, row + r, column);
    }
  };
  const auto for_each_columns = [&](const auto& visit) {
    tl::int64_t column = part.column;
    KILN_NO_UNROLL for (; column + COLUMNS <= part.column_end; column += COLUMNS)
        visit(tl::Constant<WIDTH>{}, tl::Constant<COLUMNS>{}, column);
    if constexpr (TAIL > 0)
      if (column < part.column_end) visit(tl::Constant<TAIL>{}, tl::Constant<TAIL>{}, part.column_end - TAIL);
  };
  const auto for_each_rows = [&](const auto& visit) {
    KILN_NO_UNROLL for (tl::int64_t next = part.row; next < part.row_end; next += ROWS) visit(next);
  };
  const tl::int64_t column_stride = kBOrder == kColumnsContiguous ? 1 : it.column_strides[kMatmulB];
  if constexpr (kRowsFirst) {
    for_each_rows([&](tl::int64_t next) {
      for_each_columns([&](auto width, auto columns, tl::int64_t column) {
        make_block(width, columns, next, column, right + column * column_stride, it.row_strides[kMatmulB]);
      });
    });
  } else {
    for_each_columns(
        [&]<int kWidth, int kColumns>(tl::Constant<kWidth> width, tl::Constant<kColumns> columns, tl::int64_t column) {
          const C* from = right + column * column_stride;
          tl::int64_t stride = it.row_strides[kMatmulB];
          if constexpr (DEPTH > 0) {
            if constexpr (SHALLOW_K > 0)
              pack_shallow_panel<SHALLOW_K, kWidth>(from, it, kColumns, panel);
            else
              pack_panel<kBOrder, kWidth>(from, it, static_cast<int>(it.k), kColumns, panel);
            from = panel;
            stride = kWidth;
          }
          for_each_rows([&](tl::int64_t next) { make_block(width, columns, next, column, from, stride); });
        });
  }
}

template <typename Epilogue, int kAOrder, int kBOrder, int kOutOrder, int ROWS, int WIDTH, int COLUMNS, int TAIL,
          int DEPTH, int UNROLL, int SHALLOW_K, bool kRowsFirst, bool kIsLong, bool kHasBatch, typename C,
          typename Addend, typename Out>
KILN_KERNEL void matmul_outer_kernel(const C* a, const C* b, const Addend* addend, Out* out, const float* /*scale_a*/,
                                     const float* /*scale_b*/, MatmulIteration it,
                                     MatmulScalars<typename Epilogue::Compute> scalars) {
  multiply_outer<kAOrder, kBOrder, kOutOrder, ROWS, WIDTH, COLUMNS, TAIL, DEPTH, UNROLL, SHALLOW_K, kRowsFirst, kIsLong,
                 kHasBatch>(Epilogue{scalars}, a, b, addend, out, it);
}
template <typename Sum, int kAOrder, int kBOrder, int kOutOrder, int ROWS, int WIDTH, int COLUMNS, int TAIL, int DEPTH,
          int UNROLL, int SHALLOW_K, bool kRowsFirst, bool kIsLong, bool kHasBatch, typename C>
KILN_KERNEL void matmul_outer_partial_kernel(const C* a, const C* b, Sum* partial_sums, MatmulIteration it) {
  take_part_of_k(it, a, b, partial_sums);
  multiply_outer<kAOrder, kBOrder, kOutOrder, ROWS, WIDTH, COLUMNS, TAIL, DEPTH, UNROLL, SHALLOW_K, kRowsFirst, kIsLong,
                 kHasBatch>(PartialSum<Sum>{}, a, b, static_cast<const Sum*>(nullptr), partial_sums, it);
}

/// ROWS rows, all there are, of at most BLOCK_N columns (two LANES more than the plan's parts have at most), whose sums
/// lie in the nearest cache: b, which is too large for any, is read in whole rows where they lie, some at a time.
template <int kOutOrder, int ROWS, int BLOCK_N, int LANES, bool kHasBatch, typename Epilogue, typename C,
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
  constexpr int kSteps = 4;  // eight took a tenth longer
  alignas(64) C totals[ROWS][BLOCK_N], sums[ROWS][BLOCK_N];
  const auto bytes = sizeof(C) * static_cast<unsigned long>(columns);
  KILN_NO_UNROLL for (int row = 0; row < ROWS; ++row) __builtin_memset(totals[row], 0, bytes);
  KILN_NO_UNROLL for (tl::int64_t begin = 0; begin < it.k; begin += kSteps * kPartOfK) {
    const tl::int64_t end = it.k - begin < kSteps * kPartOfK ? it.k : begin + kSteps * kPartOfK;
    KILN_NO_UNROLL for (int row = 0; row < ROWS; ++row) __builtin_memset(sums[row], 0, bytes);
    tl::int64_t k = begin;
    KILN_NO_UNROLL for (; k + kSteps <= end; k += kSteps) {
      const C *a_now = left + k * a_step, *b_now = right + k * b_stride;
      tl::add_whole_rows<LANES>(whole, a_now, a_stride, a_step, b_now, b_stride, sums[0], BLOCK_N,
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

template <typename Epilogue, int kOutOrder, int ROWS, int BLOCK_N, int LANES, bool kHasBatch, typename C,
          typename Addend, typename Out>
KILN_KERNEL void matmul_stream_kernel(const C* a, const C* b, const Addend* addend, Out* out, const float* /*scale_a*/,
                                      const float* /*scale_b*/, MatmulIteration it,
                                      MatmulScalars<typename Epilogue::Compute> scalars) {
  multiply_stream<kOutOrder, ROWS, BLOCK_N, LANES, kHasBatch>(Epilogue{scalars}, a, b, addend, out, it);
}
template <typename Sum, int kOutOrder, int ROWS, int BLOCK_N, int LANES, bool kHasBatch, typename C>
KILN_KERNEL void matmul_stream_partial_kernel(const C* a, const C* b, Sum* partial_sums, MatmulIteration it) {
  take_part_of_k(it, a, b, partial_sums);
  multiply_stream<kOutOrder, ROWS, BLOCK_N, LANES, kHasBatch>(PartialSum<Sum>{}, a, b, static_cast<const Sum*>(nullptr),
                                                              partial_sums, it);
}

/// Blocks of ROWS x COLUMNS, vectors along k, which is contiguous in both operands: LANES of k at a time, and a
/// remainder of K_TAIL.
template <int kOutOrder, int ROWS, int COLUMNS, int LANES, int K_TAIL, int UNROLL, bool kIsLong, bool kHasBatch,
          typename Epilogue, typename C, typename Addend, typename Out>
KILN_DEVICE void multiply_inner(const Epilogue& epilogue, const C* a, const C* b, const Addend* addend, Out* out,
                                const MatmulIteration& it) {
  MatmulPlace place;
  const DirectPart part = direct_part<ROWS, COLUMNS, kHasBatch>(it, place);
  const DirectOutput<Addend, Out> output(addend, out, place);
  const C* const left = a + place.batch_offsets[kMatmulA];
  const C* const right = b + place.batch_offsets[kMatmulB];
  const tl::int64_t a_stride = it.row_strides[kMatmulA], b_stride = it.column_strides[kMatmulB];
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

template <typename Epilogue, int kOutOrder, int ROWS, int COLUMNS, int LANES, int K_TAIL, int UNROLL, bool kIsLong,
          bool kHasBatch, typename C, typename Addend, typename Out>
KILN_KERNEL void matmul_inner_kernel(const C* a, const C* b, const Addend* addend, Out* out, const float* /*scale_a*/,
                                     const float* /*scale_b*/, MatmulIteration it,
                                     MatmulScalars<typename Epilogue::Compute> scalars) {
  multiply_inner<kOutOrder, ROWS, COLUMNS, LANES, K_TAIL, UNROLL, kIsLong, kHasBatch>(Epilogue{scalars}, a, b, addend,
                                                                                      out, it);
}
template <typename Sum, int kOutOrder, int ROWS, int COLUMNS, int LANES, int K_TAIL, int UNROLL, bool kIsLong,
          bool kHasBatch, typename C>
KILN_KERNEL void matmul_inner_partial_kernel(const C* a, const C* b, Sum* partial_sums, MatmulIteration it) {
  take_part_of_k(it, a, b, partial_sums);
  multiply_inner<kOutOrder, ROWS, COLUMNS, LANES, K_TAIL, UNROLL, kIsLong, kHasBatch>(
      PartialSum<Sum>{}, a, b, static_cast<const Sum*>(nullptr), partial_sums, it);
}

}  // namespace kiln::ops
