#pragma once

#include "compiler/tl/cpu/register_block.hpp"
#include "compiler/tl/cpu/transpose_block.hpp"

// Products of narrow numbers by instructions that add up those of a whole word of 32 bits: two bf16, four integers of 8
// bits or two of 16. Panels are matrices of such words, kGroup of k in each.

namespace kiln::tl {

using WordBytes64 = int __attribute__((vector_size(64)));
using WordBytes32 = int __attribute__((vector_size(32)));
using WordBytes16 = int __attribute__((vector_size(16)));

// Each is written for a CPU that has the instruction, and used by nothing that is compiled for another. Vectors go by
// reference: by value their place depends on the CPU.
#define KILN_FOR_CPU_WITH(features) [[gnu::target(features)]] inline

KILN_FOR_CPU_WITH("avx512bf16")
void add_bf16_pairs(Lanes<float, 16>& sum, const Lanes<uint32_t, 16>& a, const Lanes<uint32_t, 16>& b) {
  using Floats = float __attribute__((vector_size(64)));
  using Pairs = __bf16 __attribute__((vector_size(64)));
  sum = (Lanes<float, 16>)__builtin_ia32_dpbf16ps_512((Floats)sum, (Pairs)a, (Pairs)b);
}
KILN_FOR_CPU_WITH("avx512vnni")
void add_byte_quads(Lanes<uint32_t, 16>& sum, const Lanes<uint32_t, 16>& a, const Lanes<uint32_t, 16>& b) {
  sum = (Lanes<uint32_t, 16>)__builtin_ia32_vpdpbusd512((WordBytes64)sum, (WordBytes64)a, (WordBytes64)b);
}
KILN_FOR_CPU_WITH("avxvnni")
void add_byte_quads(Lanes<uint32_t, 8>& sum, const Lanes<uint32_t, 8>& a, const Lanes<uint32_t, 8>& b) {
  sum = (Lanes<uint32_t, 8>)__builtin_ia32_vpdpbusd256((WordBytes32)sum, (WordBytes32)a, (WordBytes32)b);
}
KILN_FOR_CPU_WITH("avx512bw")
void add_short_pairs(Lanes<uint32_t, 16>& sum, const Lanes<uint32_t, 16>& a, const Lanes<uint32_t, 16>& b) {
  using Shorts = int16_t __attribute__((vector_size(64)));
  sum += (Lanes<uint32_t, 16>)__builtin_ia32_pmaddwd512((Shorts)a, (Shorts)b);
}
KILN_FOR_CPU_WITH("avx2")
void add_short_pairs(Lanes<uint32_t, 8>& sum, const Lanes<uint32_t, 8>& a, const Lanes<uint32_t, 8>& b) {
  using Shorts = int16_t __attribute__((vector_size(32)));
  sum += (Lanes<uint32_t, 8>)__builtin_ia32_pmaddwd256((Shorts)a, (Shorts)b);
}
KILN_DEVICE void add_short_pairs(Lanes<uint32_t, 4>& sum, const Lanes<uint32_t, 4>& a, const Lanes<uint32_t, 4>& b) {
  using Shorts = int16_t __attribute__((vector_size(16)));
  sum += (Lanes<uint32_t, 4>)__builtin_ia32_pmaddwd128((Shorts)a, (Shorts)b);
}
#undef KILN_FOR_CPU_WITH

/// How numbers of type P are packed and multiplied: kGroup of them to a word, which `add` multiplies and adds. Words of
/// a have kOffset more in each byte, since the instruction takes those for unsigned; see offset_of_panel.
template <Number P>
struct WordProduct {
  static constexpr int kGroup = 1;
};
template <>
struct WordProduct<bfloat16> {
  static constexpr int kGroup = 2;
  static constexpr uint32_t kOffset = 0;
  KILN_DEVICE static void add(auto& sum, const auto& a, const auto& b) { add_bf16_pairs(sum, a, b); }
};
template <>
struct WordProduct<int8_t> {
  static constexpr int kGroup = 4;
  static constexpr uint32_t kOffset = 0x80808080u;
  KILN_DEVICE static void add(auto& sum, const auto& a, const auto& b) { add_byte_quads(sum, a, b); }
};
template <>
struct WordProduct<int16_t> {
  static constexpr int kGroup = 2;
  static constexpr uint32_t kOffset = 0;
  KILN_DEVICE static void add(auto& sum, const auto& a, const auto& b) { add_short_pairs(sum, a, b); }
};

/// Sums of integers wrap.
template <Number C>
using WrappingSum = conditional_t<Floating<C>, C, uint32_t>;

/// Whether numbers of type P are packed in words rather than one by one.
template <Number P>
inline constexpr bool kInWords = WordProduct<P>::kGroup > 1;

/// into[r * into_stride + c] += start[c] + the sum over `count` words of a[r, k] * b[k, c], for the rows kRow and
/// kVectors registers of kLanes columns. kFetches as add_rows.
template <Number P, int kLanes, int kVectors, bool kFetches, Number C, int... kRow>
KILN_DEVICE void add_word_rows(int64_t count, const uint32_t* a, int64_t a_row_stride, const uint32_t* b,
                               int64_t b_stride, const C* start, C* into, int64_t into_stride, Sequence<kRow...>) {
  static_assert(kVectors == 1 || kVectors == 2);
  using Wrapping = WrappingSum<C>;
  using Sum = Lanes<Wrapping, kLanes>;
  using Words = Lanes<uint32_t, kLanes>;
  constexpr int kRows = sizeof...(kRow);
  constexpr int kSecond = kVectors == 2 ? kLanes : 0;
  Sum first[] = {((void)kRow, load_lanes<kLanes>(reinterpret_cast<const Wrapping*>(start)))...};
  Sum second[] = {((void)kRow, load_lanes<kLanes>(reinterpret_cast<const Wrapping*>(start + kSecond)))...};
  RowAddresses<uint32_t> rows(a, a_row_stride);
  const uint32_t* fetched = a + kRows * a_row_stride;
  const int64_t share = (kRows * a_row_stride + count - 1) / count;
  KILN_NO_UNROLL for (int64_t k = 0; k < count; ++k, b += b_stride, fetched += share) {
    rows.template keep<kRows>();
    if constexpr (kFetches) __builtin_prefetch(fetched);
    const Words right = load_lanes<kLanes>(b), right_second = load_lanes<kLanes>(b + kSecond);
    const auto add = [&](Sum& to, Sum& to_second, uint32_t word) {
      const Words left = Words(word);
      WordProduct<P>::add(to, left, right);
      if constexpr (kVectors == 2) WordProduct<P>::add(to_second, left, right_second);
    };
    (add(first[kRow], second[kRow], *rows.template at<kRow>()), ...);
    rows.advance(1);
  }
  (put_lanes<true>(first[kRow], reinterpret_cast<Wrapping*>(into) + kRow * into_stride), ...);
  if constexpr (kVectors == 2)
    (put_lanes<true>(second[kRow], reinterpret_cast<Wrapping*>(into) + (kRow * into_stride + kSecond)), ...);
}

/// start[c] = minus the sum over k of kOffset's bytes times b[k, c], which takes away again what it adds to products.
template <Number P, int kLanes, int kVectors, Number C>
KILN_DEVICE void offset_of_panel(int64_t count, const uint32_t* b, int64_t b_stride, C* start) {
  if constexpr (WordProduct<P>::kOffset != 0) {
    KILN_NO_UNROLL for (int v = 0; v < kVectors; ++v) {
      Lanes<WrappingSum<C>, kLanes> sum{};
      const auto left = Lanes<uint32_t, kLanes>(WordProduct<P>::kOffset);
      KILN_NO_UNROLL for (int64_t k = 0; k < count; ++k)
          WordProduct<P>::add(sum, left, load_lanes<kLanes>(b + (k * b_stride + v * kLanes)));
      sum = -sum;
      __builtin_memcpy(start + v * kLanes, &sum, sizeof(sum));
    }
  }
}

}  // namespace kiln::tl
