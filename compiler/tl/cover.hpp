#pragma once

#include "compiler/tl/memory.hpp"

namespace kiln::tl {

#if defined(KILN_TARGET_CUDA)

/// A mask that is not asked for a whole tile, so that no access has a second form for full tiles.
template <typename A>
struct PartialMask {
  using shape = typename A::shape;
  LessMask<A> mask;

  KILN_DEVICE bool all() const { return false; }
  KILN_DEVICE bool at(int row, int column, int r) const { return mask.at(row, column, r); }
};
template <typename A>
inline constexpr bool is_symbolic_mask<PartialMask<A>> = true;

#endif

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
      body(offsets, PartialMask<remove_cvref_t<decltype(offsets)>>{offsets < end});
    }
    return;
  }
  body(block * kN + arange<kN>(), DirectAccess{});
#else
  const auto offsets = block * kN + arange<kN>();
  body(offsets, offsets < n);
#endif
}

}  // namespace kiln::tl
