#pragma once

#include "compiler/tl/cpu/dot_pack.hpp"
#include "compiler/tl/cpu/element_bits.hpp"
#include "compiler/tl/cpu/word_block.hpp"

namespace kiln::tl {

/// to[w * to_stride + c] = the word of from[kGroup * w ..., c] as numbers of type P, for as many words as hold `rows`
/// rows, and `columns` columns, a multiple of 16; zeros where `from` ends before.
template <Number P, typename View>
KILN_DEVICE void pack_words(const View& from, int rows, int columns, uint32_t* to, int64_t to_stride) {
  using T = typename View::value_type;
  constexpr int kGroup = WordProduct<P>::kGroup, kBits = 32 / kGroup, kRun = 16;
  using Bits = typename ElementBits<sizeof(P)>::type;
  const auto bits_of = [](T x) -> uint32_t { return __builtin_bit_cast(Bits, cast<P>(x)); };
  if constexpr (is_same<typename View::column_stride_type, Constant<1>>) {
    const T zeros[kRun] = {};
    KILN_NO_UNROLL for (int row = 0; row < rows; row += kGroup)
        KILN_NO_UNROLL for (int column = 0; column < columns; column += kRun) {
      const View rest = from.from(row, column);
      uint32_t* const target = to + (row / kGroup * to_stride + column);
      const auto row_of = [&](int g) { return g < rest.rows ? rest.data + g * rest.row_stride : zeros; };
      const T* const lines[4] = {row_of(0), row_of(1), row_of(kGroup == 4 ? 2 : 0), row_of(kGroup == 4 ? 3 : 0)};
      const auto word_of = [&](int c) {
        uint32_t word = bits_of(lines[0][c]) | bits_of(lines[1][c]) << kBits;
        if constexpr (kGroup == 4) word |= bits_of(lines[2][c]) << 2 * kBits | bits_of(lines[3][c]) << 3 * kBits;
        return word;
      };
      if (rest.columns >= kRun) {
        KILN_NO_UNROLL for (int c = 0; c < kRun; ++c) target[c] = word_of(c);
      } else {
        _Pragma("clang loop vectorize(disable) unroll(disable)") for (int c = 0; c < kRun; ++c) target[c] =
            c < rest.columns ? word_of(c) : 0;
      }
    }
  } else {
    // Columns as numbers of type P, a square of words at a time, which is then transposed.
    KILN_NO_UNROLL for (int row = 0; row < rows; row += kRun * kGroup)
        KILN_NO_UNROLL for (int column = 0; column < columns; column += kRun) {
      const View rest = from.from(row, column);
      alignas(64) P square[kRun * kRun * kGroup];
      const int depth = rest.rows < kRun * kGroup ? rest.rows : kRun * kGroup;
      KILN_NO_UNROLL for (int c = 0; c < kRun; ++c) {
        P* const line = square + c * kRun * kGroup;
        const int count = c < rest.columns ? depth : 0;
        const View lines = rest.from(0, c);
        const int64_t step = lines.row_stride;
        if (count == kRun * kGroup) {
          KILN_NO_UNROLL for (int k = 0; k < kRun * kGroup; ++k) line[k] = cast<P>(lines.data[k * step]);
        } else {
          KILN_NO_UNROLL for (int k = 0; k < kRun * kGroup; ++k) line[k] =
              k < count ? cast<P>(lines.data[k * step]) : P{};
        }
      }
      uint32_t* const target = to + (row / kGroup * to_stride + column);
      const auto words = reinterpret_cast<const uint32_t*>(square);
      const int words_left = (rows - row + kGroup - 1) / kGroup;
      if (words_left >= kRun) {
        transpose_square(kRun, words, kRun, target, to_stride);
      } else {
        alignas(64) uint32_t turned[kRun * kRun];
        transpose_square(kRun, words, kRun, turned, kRun);
        KILN_NO_UNROLL for (int w = 0; w < words_left; ++w)
            __builtin_memcpy(target + w * to_stride, turned + w * kRun, sizeof(uint32_t) * kRun);
      }
    }
  }
}

}  // namespace kiln::tl
