#pragma once

#include "ops/matmul/kernel_direct.hpp"

// Large products on the CPU, after Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication", 2008:
// BLOCK_K of k at a time, rows of a in the core's own cache, a panel of b in the nearest one, and sums that come back
// to registers for each part of k.

namespace kiln::ops {

/// Where the panel of b's columns from `column` on lies whose part of k begins at `k` and has `depth` rows in memory:
/// parts of k lie one behind the other, each with all its panels.
KILN_DEVICE tl::int64_t panel_place(tl::int64_t k, tl::int64_t depth, tl::int64_t column, tl::int64_t padded_columns) {
  return k * padded_columns + column * depth;
}

/// Columns of all panels.
template <int kWidth>
KILN_DEVICE tl::int64_t padded_columns(const MatmulIteration& it) {
  return (it.n + kWidth - 1) / kWidth * kWidth;
}

/// Part `place` of `parts` of an extent, all within one of kUnit of each other: `place` becomes its first element, and
/// the result is how many there are.
template <int kUnit>
KILN_DEVICE int take_even_part(tl::int64_t extent, tl::int64_t parts, tl::int64_t& place) {
  const tl::int64_t units = (extent + kUnit - 1) / kUnit, end = units * (place + 1) / parts * kUnit;
  place = units * place / parts * kUnit;
  return static_cast<int>((end < extent ? end : extent) - place);
}

/// `columns` columns of b in panels of kWidth, `depth` rows of each. Few rows of all panels at a time where rows are
/// contiguous: they are then read from end to end, and a row's page once.
template <int kBOrder, int kWidth, typename B, typename C>
KILN_DEVICE void pack_panels(const B* from, const MatmulIteration& it, int depth, int columns, C* panels) {
  const int piece = kBOrder == kColumnsContiguous ? 8 : depth;
  KILN_NO_UNROLL for (int k = 0; k < depth; k += piece)
      KILN_NO_UNROLL for (int column = 0; column < columns; column += kWidth) pack_panel<kBOrder, kWidth>(
          from + k * it.row_strides[kMatmulB] + column * it.column_strides[kMatmulB], it,
          depth - k < piece ? depth - k : piece, columns - column < kWidth ? columns - column : kWidth,
          panels + (column * padded_to_squares(depth) + k * kWidth));
}

/// b in panels of WIDTH columns, once for all programs of matmul_blocked_kernel. Program (p, q): part q of k of BLOCK_N
/// columns, so that rows are read in pieces that are worth fetching ahead.
template <int kBOrder, int WIDTH, int BLOCK_N, int BLOCK_K, typename B, typename C>
KILN_KERNEL void matmul_panels_kernel(const B* b, C* panels, MatmulIteration it) {
  static_assert(BLOCK_N % WIDTH == 0);
  const tl::int64_t column = tl::program_id(0) * BLOCK_N, k = tl::program_id(1) * BLOCK_K;
  const int depth = static_cast<int>(it.k - k < BLOCK_K ? it.k - k : BLOCK_K);
  const int columns = static_cast<int>(it.n - column < BLOCK_N ? it.n - column : BLOCK_N);
  pack_panels<kBOrder, WIDTH>(b + k * it.row_strides[kMatmulB] + column * it.column_strides[kMatmulB], it, depth,
                              columns,
                              panels + panel_place(k, padded_to_squares(depth), column, padded_columns<WIDTH>(it)));
}

/// `rows` rows of a, which are contiguous along m, in blocks of ROWS side by side: to[row * stride + k * ROWS + r] for
/// row r of the block that begins at `row`. They are copied as they lie; packed along k, as rows that are contiguous,
/// they would have to be transposed (4096x217' times 217x784 took a fifth longer).
template <int ROWS, typename A, typename P>
KILN_DEVICE void pack_row_blocks(const A* from, tl::int64_t k_stride, int rows, int depth, P* to, tl::int64_t stride) {
  constexpr int kAhead = 8;
  const int whole = rows / ROWS * ROWS;
  KILN_NO_UNROLL for (int k = 0; k < depth; ++k, from += k_stride, to += ROWS) {
    const A* const ahead = from + kAhead * k_stride;
    KILN_NO_UNROLL for (int row = 0; row < whole; row += ROWS) {
      __builtin_prefetch(ahead + row);
      P* const block = to + row * stride;
      for (int r = 0; r < ROWS; ++r) block[r] = tl::cast<P>(from[row + r]);
    }
    if (whole < rows) {
      P* const block = to + whole * stride;
      KILN_NO_UNROLL for (int r = 0; r < ROWS; ++r) block[r] = whole + r < rows ? tl::cast<P>(from[whole + r]) : P{};
    }
  }
}

/// a, of which kWordOffset's bytes are to be added to each: their upper bits are turned.
template <typename P>
KILN_DEVICE void add_word_offset(P* packed, int count) {
  constexpr tl::uint32_t kOffset = tl::WordProduct<P>::kOffset;
  if constexpr (kOffset != 0) {
    auto* const words = reinterpret_cast<tl::uint32_t*>(packed);
    for (int i = 0; i < count / tl::WordProduct<P>::kGroup; ++i) words[i] ^= kOffset;
  }
}

/// Blocks of ROWS x WIDTH of a program's BLOCK_M x BLOCK_N, whose sums are of type C and whose operands are packed as
/// P. kShared: b is what matmul_panels_kernel made of it.
template <int kAOrder, int kBOrder, int kOutOrder, int ROWS, int WIDTH, int BLOCK_M, int BLOCK_N, int BLOCK_K,
          bool kPackA, bool kShared, bool kHasBatch, typename C, typename P, typename Epilogue, typename A, typename B,
          typename Addend, typename Out>
KILN_DEVICE void multiply_blocked(const Epilogue& epilogue, const A* a, const B* b, const Addend* addend, Out* out,
                                  const MatmulIteration& it) {
  static_assert(BLOCK_M % ROWS == 0 && BLOCK_N % WIDTH == 0);
  static_assert(kPackA || kAOrder == kColumnsContiguous, "only rows along k are read where they lie");
  MatmulPlace place = matmul_place<1, 1, 1, kHasBatch>(it, static_cast<ProgramNumber>(tl::program_id(0)));
  const DirectOutput<Addend, Out> output(addend, out, place);
  const int rows = take_even_part<ROWS>(it.m, it.row_blocks, place.row);
  const int columns = take_even_part<WIDTH>(it.n, it.column_blocks, place.column);
  const tl::int64_t a_step = kAOrder == kColumnsContiguous ? 1 : it.column_strides[kMatmulA];

  // Rows are a little more than a power of two apart, which caches keep in few places.
  constexpr int kLeftStride = BLOCK_K + 64 / static_cast<int>(sizeof(P));
  constexpr int kPaddedM = padded_to_squares(BLOCK_M);
  constexpr bool kRowsTogether = kAOrder == kRowsContiguous && !tl::kInWords<P>;
  alignas(64) C sums[BLOCK_M * BLOCK_N];
  alignas(64) P packed[kPackA ? kPaddedM * kLeftStride : 1];
  alignas(64) P own_panels[kShared ? 1 : BLOCK_K * BLOCK_N];
  const int used_rows = (rows + ROWS - 1) / ROWS * ROWS;
  KILN_NO_UNROLL for (tl::int64_t k = 0; k < it.k; k += BLOCK_K) {
    const int depth = static_cast<int>(it.k - k < BLOCK_K ? it.k - k : BLOCK_K);
    const A* const a_part = a + place.batch_offsets[kMatmulA] + place.row * it.row_strides[kMatmulA] + k * a_step;
    const P* left = packed;
    tl::int64_t left_stride = kLeftStride;
    if constexpr (kRowsTogether) {
      pack_row_blocks<ROWS>(a_part, a_step, rows, depth, packed, kLeftStride);
    } else if constexpr (kPackA) {
      pack_rows<kAOrder>(a_part, it, rows, depth, packed, kLeftStride);
      if constexpr (tl::kInWords<P>) add_word_offset(packed, rows * kLeftStride);
    } else {
      left = a_part;
      left_stride = it.row_strides[kMatmulA];
    }
    if constexpr (!kShared)
      pack_panels<kBOrder, WIDTH>(
          b + place.batch_offsets[kMatmulB] + k * it.row_strides[kMatmulB] + place.column * it.column_strides[kMatmulB],
          it, depth, columns, own_panels);
    KILN_NO_UNROLL for (int column = 0; column < columns; column += WIDTH) {
      const P* panel = own_panels + column * padded_to_squares(depth);
      if constexpr (kShared)
        panel = b + panel_place(k, padded_to_squares(depth), place.column + column, padded_columns<WIDTH>(it));
      // The sums of a panel are in the nearest cache here: cleared before its first part of k, read after its last.
      C* const into = sums + column * BLOCK_M;
      if (k == 0) __builtin_memset(into, 0, sizeof(C) * static_cast<unsigned long>(used_rows * WIDTH));
      const int width = columns - column < WIDTH ? columns - column : WIDTH;
      constexpr int kGroup = tl::WordProduct<P>::kGroup;
      alignas(64) C start[WIDTH] = {};
      if constexpr (kGroup > 1)
        tl::offset_of_panel<P, WIDTH / 2, 2>((depth + kGroup - 1) / kGroup,
                                             reinterpret_cast<const tl::uint32_t*>(panel), WIDTH, start);
      KILN_NO_UNROLL for (int row = 0; row < used_rows; row += ROWS) {
        // What is not packed ends with its last row: a block that would go on beyond it begins before.
        const int back = !kPackA && row + ROWS > rows ? row + ROWS - rows : 0;
        const P* const left_row = left + (row - back) * left_stride;
        C* const block = into + row * WIDTH;
        const auto add = [&]<int kVectors>(tl::Constant<kVectors>) {
          if constexpr (kGroup > 1)
            tl::add_word_rows<P, WIDTH / 2, kVectors, kPackA>(
                (depth + kGroup - 1) / kGroup, reinterpret_cast<const tl::uint32_t*>(left_row), left_stride / kGroup,
                reinterpret_cast<const tl::uint32_t*>(panel), WIDTH, start, block, WIDTH, tl::make_sequence<ROWS>());
          else if constexpr (kRowsTogether)
            tl::add_row_block<WIDTH / 2 * kVectors>(depth, left_row, panel, WIDTH, block, WIDTH,
                                                    tl::make_sequence<ROWS>());
          else
            tl::add_rows<WIDTH / 2 * kVectors, kPackA>(depth, left_row, left_stride, panel, WIDTH, block, WIDTH,
                                                       tl::make_sequence<ROWS>());
        };
        if (width > WIDTH / 2)
          add(tl::Constant<2>{});
        else
          add(tl::Constant<1>{});
        // Block by block, so that what is written has until the next one to get away.
        if (k + BLOCK_K < it.k) continue;
        const auto finish = [&](auto count) {
          const int end = rows - row < ROWS ? rows - row + back : ROWS;
          KILN_NO_UNROLL for (int r = back; r < end; ++r) output.template finish<kOutOrder>(
              epilogue, block + r * WIDTH, count, it, place.row + row - back + r, place.column + column);
        };
        if (width == WIDTH)
          finish(tl::Constant<WIDTH>{});
        else
          finish(width);
      }
    }
  }
}

template <typename Epilogue, int kAOrder, int kBOrder, int kOutOrder, int ROWS, int WIDTH, int BLOCK_M, int BLOCK_N,
          int BLOCK_K, bool kPackA, bool kShared, bool kHasBatch, typename P, typename A, typename B, typename Addend,
          typename Out>
KILN_KERNEL void matmul_blocked_kernel(const A* a, const B* b, const Addend* addend, Out* out, const float* scale_a,
                                       const float* scale_b, MatmulIteration it,
                                       MatmulScalars<typename Epilogue::Compute> scalars) {
  Epilogue epilogue{scalars};
  if constexpr (Epilogue::kScaled) epilogue.scale(tl::load(scale_a), tl::load(scale_b));
  multiply_blocked<kAOrder, kBOrder, kOutOrder, ROWS, WIDTH, BLOCK_M, BLOCK_N, BLOCK_K, kPackA, kShared, kHasBatch,
                   tl::dot_sum_t<A>, P>(epilogue, a, b, addend, out, it);
}

template <typename Sum, int kAOrder, int kBOrder, int kOutOrder, int ROWS, int WIDTH, int BLOCK_M, int BLOCK_N,
          int BLOCK_K, bool kPackA, bool kShared, bool kHasBatch, typename P, typename A, typename B>
KILN_KERNEL void matmul_blocked_partial_kernel(const A* a, const B* b, Sum* partial_sums, MatmulIteration it) {
  static_assert(!kShared);
  take_part_of_k(it, a, b, partial_sums);
  multiply_blocked<kAOrder, kBOrder, kOutOrder, ROWS, WIDTH, BLOCK_M, BLOCK_N, BLOCK_K, kPackA, false, kHasBatch, Sum,
                   P>(PartialSum<Sum>{}, a, b, static_cast<const Sum*>(nullptr), partial_sums, it);
}

}  // namespace kiln::ops
