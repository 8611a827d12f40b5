#pragma once

#include "compiler/tl/affine.hpp"
#include "compiler/tl/number.hpp"
#include "compiler/tl/traits.hpp"

namespace kiln::tl {

// Small products whose sums stay in registers from the first k to the last. Sums are arrays of vectors with places that
// are packs of numbers: as loops they would have to be unrolled before they could be in registers, which takes longer
// than to compile them.

/// As one register, or several that are treated alike.
template <Number C, int kLanes>
using Lanes = C __attribute__((ext_vector_type(kLanes)));

/// The first kCount of kLanes numbers; the others are 0.
template <int kLanes, int kCount, Number C>
KILN_DEVICE Lanes<C, kLanes> load_some_lanes(const C* from) {
  Lanes<C, kLanes> result{};
  __builtin_memcpy(&result, from, sizeof(C) * kCount);
  return result;
}

template <int kLanes, Number C>
KILN_DEVICE Lanes<C, kLanes> load_lanes(const C* from) {
  return load_some_lanes<kLanes, kLanes>(from);
}

/// into = x, or into += x. Long sums are added up in parts, which keeps the rounding errors of each small.
template <bool kAdds, typename Vector, Number C>
KILN_DEVICE void put_lanes(Vector x, C* into) {
  if constexpr (kAdds) {
    Vector before;
    __builtin_memcpy(&before, into, sizeof(Vector));
    x = before + x;
  }
  __builtin_memcpy(into, &x, sizeof(Vector));
}

/// Rows of a matrix by as few addresses as reach them: one reaches three, at 0, 1 and 2 strides. Told nothing, LLVM
/// adds up addresses row by row in each step, ten instructions beside sixteen products.
template <Number C>
struct RowAddresses {
  static constexpr int kMostRows = 12;
  const C *row_0, *row_3, *row_6, *row_9;
  int64_t stride;

  KILN_DEVICE RowAddresses(const C* first, int64_t row_stride)
      : row_0(first),
        row_3(first + 3 * row_stride),
        row_6(first + 6 * row_stride),
        row_9(first + 9 * row_stride),
        stride(row_stride) {}
  template <int kRow>
  KILN_DEVICE const C* at() const {
    static_assert(kRow < kMostRows);
    return (kRow < 3 ? row_0 : kRow < 6 ? row_3 : kRow < 9 ? row_6 : row_9) + kRow % 3 * stride;
  }
  template <int kRows>
  KILN_DEVICE void keep() {
    if constexpr (kRows <= 3)
      asm("" : "+r"(row_0));
    else if constexpr (kRows <= 6)
      asm("" : "+r"(row_0), "+r"(row_3));
    else if constexpr (kRows <= 9)
      asm("" : "+r"(row_0), "+r"(row_3), "+r"(row_6));
    else
      asm("" : "+r"(row_0), "+r"(row_3), "+r"(row_6), "+r"(row_9));
  }
  KILN_DEVICE void advance(int64_t step) { row_0 += step, row_3 += step, row_6 += step, row_9 += step; }
};

/// put(Constant<r>, sum over k of a[r, k] * b[k, c]), for the rows kRow and kColumns columns c of kLanes, the other
/// lanes being 0. kUnroll sums of every kUnroll'th k, added up at the end, keep the multipliers busy where rows are
/// few: each waits for the one before in the same sum.
template <int kLanes, int kColumns, int kUnroll, Number C, typename Put, int... kRow>
KILN_DEVICE void sum_rows(int64_t count, const C* a, int64_t a_row_stride, int64_t a_step, const C* b, int64_t b_stride,
                          const Put& put, Sequence<kRow...>) {
#pragma clang fp contract(fast)
  using Vector = Lanes<C, kLanes>;
  constexpr int kRows = sizeof...(kRow);
  Vector sums[kUnroll][kRows] = {};
  RowAddresses<C> rows(a, a_row_stride);
  const auto add = [&](Vector(&to)[kRows], int64_t a_place, const C* right_at) {
    const Vector right = load_some_lanes<kLanes, kColumns>(right_at);
    ((to[kRow] = to[kRow] + rows.template at<kRow>()[a_place] * right), ...);
  };
  int64_t k = 0;
  if constexpr (kUnroll > 1) {
    KILN_NO_UNROLL for (; k + kUnroll <= count; k += kUnroll) {
      add(sums[0], 0, b);
      add(sums[1], a_step, b + b_stride);
      if constexpr (kUnroll > 2) {
        add(sums[2], 2 * a_step, b + 2 * b_stride);
        add(sums[3], 3 * a_step, b + 3 * b_stride);
      }
      rows.advance(kUnroll * a_step);
      b += kUnroll * b_stride;
    }
  }
  KILN_NO_UNROLL for (; k < count; ++k, b += b_stride) {
    rows.template keep<kRows>();
    add(sums[0], 0, b);
    rows.advance(a_step);
  }
  if constexpr (kUnroll == 2) ((sums[0][kRow] = sums[0][kRow] + sums[1][kRow]), ...);
  if constexpr (kUnroll == 4)
    ((sums[0][kRow] = (sums[0][kRow] + sums[1][kRow]) + (sums[2][kRow] + sums[3][kRow])), ...);
  (put(Constant<kRow>{}, sums[0][kRow]), ...);
}

/// into[r * into_stride + c] += sum over k of a[r, k] * b[k, c] for rows of a that are contiguous. kFetches: they lie
/// one behind the other, and those after the rows kRow come next: they are fetched meanwhile.
template <int kLanes, bool kFetches, Number C, int... kRow>
KILN_DEVICE void add_rows(int64_t count, const C* a, int64_t a_row_stride, const C* b, int64_t b_stride, C* into,
                          int64_t into_stride, Sequence<kRow...>) {
#pragma clang fp contract(fast)
  using Vector = Lanes<C, kLanes>;
  constexpr int kRows = sizeof...(kRow);
  Vector sums[] = {((void)kRow, Vector{})...};
  RowAddresses<C> rows(a, a_row_stride);
  const C* fetched = a + kRows * a_row_stride;
  const int64_t share = (kRows * a_row_stride + count - 1) / count;
  KILN_NO_UNROLL for (int64_t k = 0; k < count; ++k, b += b_stride, fetched += share) {
    rows.template keep<kRows>();
    if constexpr (kFetches) __builtin_prefetch(fetched);
    const Vector right = load_lanes<kLanes>(b);
    ((sums[kRow] = sums[kRow] + *rows.template at<kRow>() * right), ...);
    rows.advance(1);
  }
  (put_lanes<true>(sums[kRow], into + kRow * into_stride), ...);
}

/// As add_rows for rows of a that lie side by side, all of them for each k: the numbers that are multiplied next come
/// next in memory, by one address.
template <int kLanes, Number C, int... kRow>
KILN_DEVICE void add_row_block(int64_t count, const C* a, const C* b, int64_t b_stride, C* into, int64_t into_stride,
                               Sequence<kRow...>) {
#pragma clang fp contract(fast)
  using Vector = Lanes<C, kLanes>;
  Vector sums[] = {((void)kRow, Vector{})...};
  KILN_NO_UNROLL for (int64_t k = 0; k < count; ++k, a += sizeof...(kRow), b += b_stride) {
    const Vector right = load_lanes<kLanes>(b);
    ((sums[kRow] = sums[kRow] + a[kRow] * right), ...);
  }
  (put_lanes<true>(sums[kRow], into + kRow * into_stride), ...);
}

/// The sum of a vector's lanes: halves are added to halves.
template <Number C, int kLanes>
KILN_DEVICE C sum_lanes(Lanes<C, kLanes> x) {
  if constexpr (kLanes == 1) {
    return x[0];
  } else {
    using Half = Lanes<C, kLanes / 2>;
    Half halves[2];
    __builtin_memcpy(&halves, &x, sizeof(x));
    return sum_lanes<C, kLanes / 2>(halves[0] + halves[1]);
  }
}

/// totals[r][c] (kAdds: +)= sum over k of a[r, k] * b[c, k], both contiguous along k: kLanes of k at a time, and what
/// is left over, kTail of them.
template <int kRows, int kColumns, int kLanes, int kTail, int kUnroll, bool kAdds, Number C, int... kPlace>
KILN_DEVICE void sum_along_k(int64_t count, const C* a, int64_t a_stride, const C* b, int64_t b_stride,
                             C (&totals)[kRows][kColumns], Sequence<kPlace...>) {
#pragma clang fp contract(fast)
  static_assert(sizeof...(kPlace) == kRows * kColumns);
  using Vector = Lanes<C, kLanes>;
  Vector sums[kUnroll][kRows * kColumns] = {};
  RowAddresses<C> rows(a, a_stride), columns(b, b_stride);
  const auto add = [&](Vector(&into)[kRows * kColumns], int64_t place) {
    ((into[kPlace] = into[kPlace] + load_lanes<kLanes>(rows.template at<kPlace / kColumns>() + place) *
                                        load_lanes<kLanes>(columns.template at<kPlace % kColumns>() + place)),
     ...);
  };
  int64_t k = 0;
  if constexpr (kUnroll > 1) {
    KILN_NO_UNROLL for (; k + kUnroll * kLanes <= count; k += kUnroll * kLanes) {
      add(sums[0], k);
      add(sums[1], k + kLanes);
      if constexpr (kUnroll > 2) {
        add(sums[2], k + 2 * kLanes);
        add(sums[3], k + 3 * kLanes);
      }
    }
  }
  KILN_NO_UNROLL for (; k + kLanes <= count; k += kLanes) add(sums[0], k);
  if (kTail > 0 && k < count)
    ((sums[0][kPlace] =
          sums[0][kPlace] + load_some_lanes<kLanes, kTail>(rows.template at<kPlace / kColumns>() + k) *
                                load_some_lanes<kLanes, kTail>(columns.template at<kPlace % kColumns>() + k)),
     ...);
  if constexpr (kUnroll == 2) ((sums[0][kPlace] = sums[0][kPlace] + sums[1][kPlace]), ...);
  if constexpr (kUnroll == 4)
    ((sums[0][kPlace] = (sums[0][kPlace] + sums[1][kPlace]) + (sums[2][kPlace] + sums[3][kPlace])), ...);
  ((totals[kPlace / kColumns][kPlace % kColumns] =
        (kAdds ? totals[kPlace / kColumns][kPlace % kColumns] : C{}) + sum_lanes<C, kLanes>(sums[0][kPlace])),
   ...);
}

/// into[r * into_stride + c] += sum over the next kSteps of k of a[r, k] * b[k, c] for the rows kRow and `columns`, a
/// multiple of kLanes: so many rows of b are read from their first to their last column. kFetches: they are fetched
/// ahead.
template <int kLanes, bool kFetches, Number C, int... kRow, int... kStep>
KILN_DEVICE void add_whole_rows(int64_t columns, const C* a, int64_t a_row_stride, int64_t a_step, const C* b,
                                int64_t b_stride, C* into, int64_t into_stride, Sequence<kRow...>, Sequence<kStep...>) {
#pragma clang fp contract(fast)
  using Vector = Lanes<C, kLanes>;
  constexpr int kAhead = 512 / static_cast<int>(sizeof(C));
  KILN_NO_UNROLL for (int64_t c = 0; c < columns; c += kLanes) {
    if constexpr (kFetches) (__builtin_prefetch(b + kStep * b_stride + c + kAhead), ...);
    const Vector right[] = {load_lanes<kLanes>(b + kStep * b_stride + c)...};
    const auto add = [&](const C* left, C* to) {
      Vector parts[2] = {};
      ((parts[kStep % 2] = parts[kStep % 2] + left[kStep * a_step] * right[kStep]), ...);
      put_lanes<true>(parts[0] + parts[1], to);
    };
    (add(a + kRow * a_row_stride, into + kRow * into_stride + c), ...);
  }
}

}  // namespace kiln::tl
