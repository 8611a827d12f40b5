#pragma once

#include "compiler/tl/memory.hpp"

namespace kiln::tl {

/// Calls body(offsets, mask) until it has covered elements kN * block, ..., kN * block + kN - 1, those below n, of
/// dense arrays that begin at `arrays`. Body makes its loads and then its stores at array + offsets under mask, and
/// takes tiles of any shape. A block that is whole and aligned in all arrays, as nearly every block is, is one tile of
/// Shape<kN> that is accessed without further tests: with a load that tests for itself, each test is a branch that the
/// next load is issued behind. On the GPU other blocks take smaller tiles; kInFlight bounds the elements of a thread in
/// one of them (more keep more of memory's latency busy and take longer to compile).
template <int kN, int kInFlight, typename Body, typename... T>
KILN_DEVICE void cover(int64_t block, int64_t n, Body body, [[maybe_unused]] T*... arrays) {
#if defined(KILN_TARGET_CUDA)
  // What stands before the first load is short, and none of it waits for what could have been asked for earlier: the
  // thread's number, which takes long to read, is read before the branch, and the test is one branch (`|`, not `||`) on
  // numbers that are there early. opaque() keeps what the other path needs out of it.
  asm volatile("" ::"r"(threadIdx.x));
  constexpr int kShift = [] {
    int shift = 0;
    while (1 << shift < kN) ++shift;
    return shift;
  }();
  if (__builtin_expect((block >= (n >> kShift)) | ((misaligned_bits<kN>(arrays) | ...) != 0), 0)) {
    n = opaque(n);
    const int64_t first = block * kN;
    // Neighbouring threads on neighbouring elements: row t, column c of the tile is element c * kNumThreads + t.
    constexpr int kColumns = smaller(smaller(kInFlight, larger(1, kVectorWidth / 4)), larger(1, kN / kNumThreads));
    constexpr int kStep = kColumns * kNumThreads;
    const int64_t end = n - first < kN ? n : first + kN;
    KILN_NO_UNROLL for (int64_t start = first; start < end; start += kStep) {
      const auto offsets = make_affine<Shape<kNumThreads, kColumns>>(start, Constant<1>{}, Constant<kNumThreads>{});
      const auto mask = offsets < end;
      body(offsets, PartialMask<remove_cvref_t<decltype(mask)>>{mask});
    }
    return;
  }
  body(block * kN + arange<kN>(), DirectAccess{});
#else
  const auto offsets = block * kN + arange<kN>();
  body(offsets, offsets < n);
#endif
}

/// As cover(), with blocks that begin at a cache line of `out`, one more of them for the elements before the first:
/// only whole lines can go past the caches, and arrays begin anywhere (those of malloc 16 bytes behind a line).
template <int kN, typename Body, typename T>
KILN_DEVICE void cover_lines(int64_t block, int64_t n, Body body, T* out) {
#if defined(KILN_TARGET_CUDA)
  cover<kN, 1>(block, n, body, out);
#else
  const int64_t first = block * kN - elements_into_line(out);
  if (first >= 0 && first + kN <= n) {
    body(first + arange<kN>(), DirectAccess{});
    return;
  }
  const int64_t begin = first < 0 ? 0 : first, end = first + kN < n ? first + kN : n;
  const auto mask = begin + arange<kN>() < end;
  body(begin + arange<kN>(), PartialMask<remove_cvref_t<decltype(mask)>>{mask});
#endif
}

}  // namespace kiln::tl
