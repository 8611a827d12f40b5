#pragma once

#include "compiler/tl/cpu/dot_pack.hpp"
#include "compiler/tl/cpu/vector_bytes.hpp"

namespace kiln::tl {

/// acc[r, c] += sum over k of a[r, k] * b[k, c] for the rows kRow and kColumns columns, with all sums in registers. The
/// rows are a pack: as a loop they would have to be unrolled before their sums could be in registers, which takes
/// longer than to compile them. As many rows after these, which come next, are fetched meanwhile, part of a line with
/// each step: all at once they would hold up what is read. Beyond the last row that fetches nothing of use, and faults
/// nowhere.
template <int kColumns, Number C, Number Acc, int... kRow>
KILN_DEVICE void multiply_rows(int64_t count, const C* a, int64_t a_stride, const C* b, int64_t b_stride, Acc* acc,
                               int64_t acc_stride, Sequence<kRow...>) {
#pragma clang fp contract(fast)
  using Vector = C __attribute__((ext_vector_type(kColumns)));
  using AccVector = Acc __attribute__((ext_vector_type(kColumns)));
  constexpr int kRows = sizeof...(kRow);
  Vector sums[] = {((void)kRow, Vector{})...};
  // An address reaches three rows, at 0, 1 and 2 strides. Told nothing, LLVM adds up addresses row by row in each step,
  // ten instructions beside sixteen products.
  static_assert(kRows <= 9);
  const C *row_0 = a, *row_3 = a + 3 * a_stride, *row_6 = a + 6 * a_stride, *next = a + kRows * a_stride;
  const int64_t share = (count + kRows - 1) / kRows;
  KILN_NO_UNROLL for (int64_t begin = 0; begin < count; begin += share, next += a_stride) {
    const int64_t end = begin + share < count ? begin + share : count;
    const C* fetched = next;
    KILN_NO_UNROLL for (int64_t k = begin; k < end; ++k) {
      asm("" : "+r"(row_0), "+r"(row_3), "+r"(row_6));
      __builtin_prefetch(fetched);
      fetched += kRows;
      Vector right;
      __builtin_memcpy(&right, b + k * b_stride, sizeof(Vector));
      ((sums[kRow] = sums[kRow] + (kRow < 3 ? row_0 : kRow < 6 ? row_3 : row_6)[kRow % 3 * a_stride] * right), ...);
      ++row_0, ++row_3, ++row_6;
    }
  }
  const auto add = [](Acc* to, Vector sum) {
    AccVector total;
    __builtin_memcpy(&total, to, sizeof(AccVector));
    total += __builtin_convertvector(sum, AccVector);
    __builtin_memcpy(to, &total, sizeof(AccVector));
  };
  (add(acc + kRow * acc_stride, sums[kRow]), ...);
}

/// What the registers hold of an accumulator: with AVX-512 8 rows of two vectors of 64 bytes, 16 of its 32 registers;
/// with 16 registers of 32 bytes 6 rows of two, which leaves room for a row of b and a number of a. Both are more sums
/// than it takes to keep the multipliers busy, and load less than the caches deliver. CPUs whose registers are narrower
/// still multiply this piece by piece.
template <Number C>
struct DotBlock {
  static constexpr int kLanes = 64 / static_cast<int>(sizeof(C)), kColumns = 2 * kLanes;

  /// As multiply_rows, of `rows` x kWidth, which is one vector of 64 bytes or two. `rows` is a multiple of 8.
  template <int kWidth, Number Acc>
  KILN_DEVICE static void multiply(int rows, int64_t count, const C* a, int64_t a_stride, const C* b, Acc* acc,
                                   int64_t acc_stride) {
    if (kiln_vector_bytes >= 64) {
      KILN_NO_UNROLL for (int row = 0; row < rows; row += 8) multiply_rows<kWidth>(
          count, a + row * a_stride, a_stride, b, kWidth, acc + row * acc_stride, acc_stride, make_sequence<8>());
    } else {
      // Any even number but 2 is so many sixes and none to two fours.
      const int fours = rows % 6 == 0 ? 0 : rows % 6 == 4 ? 1 : 2, sixes_end = rows - 4 * fours;
      KILN_NO_UNROLL for (int column = 0; column < kWidth; column += kLanes) {
        int row = 0;
        KILN_NO_UNROLL for (; row < sixes_end; row += 6)
            multiply_rows<kLanes>(count, a + row * a_stride, a_stride, b + column, kWidth,
                                  acc + (row * acc_stride + column), acc_stride, make_sequence<6>());
        KILN_NO_UNROLL for (; row < rows; row += 4)
            multiply_rows<kLanes>(count, a + row * a_stride, a_stride, b + column, kWidth,
                                  acc + (row * acc_stride + column), acc_stride, make_sequence<4>());
      }
    }
  }
};

}  // namespace kiln::tl
