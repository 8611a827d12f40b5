#pragma once

#include "compiler/tl/cpu/element_bits.hpp"
#include "compiler/tl/cpu/vector_bytes.hpp"

namespace kiln::tl {

/// A square of elements in kSide vectors, transposed by swapping ever smaller squares across its diagonal: log2(kSide)
/// rounds of one shuffle per vector. Loops over an array were the alternative; LLVM makes single moves of them.
template <Number T, int kSide_ = (sizeof(T) == 8 ? 8 : 16)>
struct TransposeBlock {
  /// A row fills a line of the cache where 16 elements can.
  static constexpr int kSide = kSide_;
  using Bits = typename ElementBits<sizeof(T)>::type;
  using Vector = Bits __attribute__((ext_vector_type(kSide)));

  KILN_DEVICE static void run(const T* from, int64_t from_stride, T* to, int64_t to_stride) {
    run_rows(kSide, from, from_stride, to, to_stride);
  }

  /// As run, of the first `count` rows; zeros stand for the others, where nothing is read.
  KILN_DEVICE static void run_rows(int64_t count, const T* from, int64_t from_stride, T* to, int64_t to_stride) {
    // CPUs with 16 registers of half the width hold a quarter of it.
    if constexpr (sizeof(Vector) > 32) {
      if (kiln_vector_bytes < 64) {
        using Quarter = TransposeBlock<T, kSide / 2>;
        for (int row = 0; row < kSide; row += kSide / 2)
          for (int column = 0; column < kSide; column += kSide / 2)
            Quarter::run_rows(count - row, from + (row * from_stride + column), from_stride,
                              to + (column * to_stride + row), to_stride);
        return;
      }
    }
    Vector rows[kSide];
    const Vector zeros = {};
    for (int i = 0; i < kSide; ++i)
      __builtin_memcpy(&rows[i], i < count ? static_cast<const void*>(from + i * from_stride) : &zeros, sizeof(Vector));
    exchange<kSide / 2>(rows, make_sequence<kSide>());
    for (int i = 0; i < kSide; ++i) __builtin_memcpy(to + i * to_stride, &rows[i], sizeof(Vector));
  }

  /// As run, of rows that have kCount elements, which become so many rows.
  template <int kCount>
  KILN_DEVICE static void run_some(const T* from, int64_t from_stride, T* to, int64_t to_stride) {
    if constexpr (sizeof(Vector) > 32) {
      if (kiln_vector_bytes < 64) {
        constexpr int kHalf = kSide / 2;
        using Quarter = TransposeBlock<T, kHalf>;
        for (int row = 0; row < kSide; row += kHalf) {
          const T* const part = from + row * from_stride;
          Quarter::template run_some<(kCount < kHalf ? kCount : kHalf)>(part, from_stride, to + row, to_stride);
          if constexpr (kCount > kHalf)
            Quarter::template run_some<kCount - kHalf>(part + kHalf, from_stride, to + (kHalf * to_stride + row),
                                                       to_stride);
        }
        return;
      }
    }
    Vector rows[kSide] = {};
    for (int i = 0; i < kSide; ++i) __builtin_memcpy(&rows[i], from + i * from_stride, sizeof(T) * kCount);
    exchange<kSide / 2>(rows, make_sequence<kSide>());
    for (int i = 0; i < kCount; ++i) __builtin_memcpy(to + i * to_stride, &rows[i], sizeof(Vector));
  }

 private:
  template <int kDistance, int... kPlace>
  KILN_DEVICE static void exchange(Vector (&rows)[kSide], Sequence<kPlace...> places) {
    for (int i = 0; i < kSide; ++i) {
      if ((i & kDistance) != 0) continue;
      const Vector upper = rows[i], lower = rows[i + kDistance];
      rows[i] =
          __builtin_shufflevector(upper, lower, ((kPlace & kDistance) != 0 ? kSide + kPlace - kDistance : kPlace)...);
      rows[i + kDistance] =
          __builtin_shufflevector(upper, lower, ((kPlace & kDistance) != 0 ? kSide + kPlace : kPlace + kDistance)...);
    }
    if constexpr (kDistance > 1) exchange<kDistance / 2>(rows, places);
  }
};

}  // namespace kiln::tl
