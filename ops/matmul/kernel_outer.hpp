#pragma once

#include "ops/matmul/kernel_direct.hpp"

namespace kiln::ops {

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

/// Blocks of ROWS x COLUMNS, vectors along the columns of b, of which there are WIDTH where COLUMNS are all there are;
/// the columns that are left over, if there are any, in a block of TAIL. b is read where it lies (DEPTH 0: its columns
/// are contiguous), or by way of a panel of at most DEPTH rows; SHALLOW_K is k where it is small and contiguous. What
/// is written row by row, since it is most of what moves or more than caches keep: all of it where b is read as it lies
/// (kRowsFirst), or from as many panels at a time as take STRIP_BYTES.
template <int kAOrder, int kBOrder, int kOutOrder, int ROWS, int WIDTH, int COLUMNS, int TAIL, int DEPTH, int UNROLL,
          int SHALLOW_K, int STRIP_BYTES, bool kRowsFirst, bool kIsLong, bool kHasBatch, typename Epilogue, typename C,
          typename Addend, typename Out>
KILN_DEVICE void multiply_outer(const Epilogue& epilogue, const C* a, const C* b, const Addend* addend, Out* out,
                                const MatmulIteration& it) {
  MatmulPlace place;
  const DirectPart part = direct_part<ROWS, COLUMNS, kHasBatch>(it, place);
  const DirectOutput<Addend, Out> output(addend, out, place);
  const C* const left = a + place.batch_offsets[kMatmulA];
  const C* const right = b + place.batch_offsets[kMatmulB];
  const tl::int64_t a_step = kAOrder == kColumnsContiguous ? 1 : it.column_strides[kMatmulA];
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
  } else if constexpr (STRIP_BYTES > 0) {
    const tl::int64_t panel_size = WIDTH * (SHALLOW_K > 0 ? SHALLOW_K : it.k);
    constexpr int kDepth = SHALLOW_K > 0 ? SHALLOW_K : DEPTH;
    alignas(64) C panels[STRIP_BYTES / sizeof(C) + kDepth * WIDTH];
    const tl::int64_t most_panels = STRIP_BYTES / static_cast<int>(sizeof(C)) / panel_size + 1;
    const auto make_strip = [&](auto width, auto columns, tl::int64_t column, tl::int64_t count) {
      constexpr int kWidth = width, kColumns = columns;
      KILN_NO_UNROLL for (tl::int64_t p = 0; p < count; ++p) {
        const C* const from = right + (column + p * kColumns) * column_stride;
        if constexpr (SHALLOW_K > 0)
          pack_shallow_panel<SHALLOW_K, kWidth>(from, it, kColumns, panels + p * panel_size);
        else
          pack_panel<kBOrder, kWidth>(from, it, static_cast<int>(it.k), kColumns, panels + p * panel_size);
      }
      for_each_rows([&](tl::int64_t next) {
        KILN_NO_UNROLL for (tl::int64_t p = 0; p < count; ++p)
            make_block(width, columns, next, column + p * kColumns, panels + p * panel_size, kWidth);
      });
    };
    tl::int64_t column = part.column;
    while (column + COLUMNS <= part.column_end) {
      const tl::int64_t left_over = (part.column_end - column) / COLUMNS,
                        count = left_over < most_panels ? left_over : most_panels;
      make_strip(tl::Constant<WIDTH>{}, tl::Constant<COLUMNS>{}, column, count);
      column += count * COLUMNS;
    }
    if constexpr (TAIL > 0)
      if (column < part.column_end) make_strip(tl::Constant<TAIL>{}, tl::Constant<TAIL>{}, part.column_end - TAIL, 1);
  } else {
    alignas(64) C panel[DEPTH > 0 ? DEPTH * WIDTH : 1];
    for_each_columns(
        [&]<int kWidth, int kColumns>(tl::Constant<kWidth> width, tl::Constant<kColumns> columns, tl::int64_t column) {
          const C* from = right + column * column_stride;
          tl::int64_t stride = it.row_strides[kMatmulB];
          if constexpr (DEPTH > 0) {
            pack_panel<kBOrder, kWidth>(from, it, static_cast<int>(it.k), kColumns, panel);
            from = panel;
            stride = kWidth;
          }
          for_each_rows([&](tl::int64_t next) { make_block(width, columns, next, column, from, stride); });
        });
  }
}

template <typename Epilogue, int kAOrder, int kBOrder, int kOutOrder, int ROWS, int WIDTH, int COLUMNS, int TAIL,
          int DEPTH, int UNROLL, int SHALLOW_K, int STRIP_BYTES, bool kRowsFirst, bool kIsLong, bool kHasBatch,
          typename C, typename Addend, typename Out>
KILN_KERNEL void matmul_outer_kernel(const C* a, const C* b, const Addend* addend, Out* out, const float* /*scale_a*/,
                                     const float* /*scale_b*/, MatmulIteration it,
                                     MatmulScalars<typename Epilogue::Compute> scalars) {
  multiply_outer<kAOrder, kBOrder, kOutOrder, ROWS, WIDTH, COLUMNS, TAIL, DEPTH, UNROLL, SHALLOW_K, STRIP_BYTES,
                 kRowsFirst, kIsLong, kHasBatch>(Epilogue{scalars}, a, b, addend, out, it);
}
template <typename Sum, int kAOrder, int kBOrder, int kOutOrder, int ROWS, int WIDTH, int COLUMNS, int TAIL, int DEPTH,
          int UNROLL, int SHALLOW_K, int STRIP_BYTES, bool kRowsFirst, bool kIsLong, bool kHasBatch, typename C>
KILN_KERNEL void matmul_outer_partial_kernel(const C* a, const C* b, Sum* partial_sums, MatmulIteration it) {
  take_part_of_k(it, a, b, partial_sums);
  multiply_outer<kAOrder, kBOrder, kOutOrder, ROWS, WIDTH, COLUMNS, TAIL, DEPTH, UNROLL, SHALLOW_K, STRIP_BYTES,
                 kRowsFirst, kIsLong, kHasBatch>(PartialSum<Sum>{}, a, b, static_cast<const Sum*>(nullptr),
                                                 partial_sums, it);
}

}  // namespace kiln::ops
