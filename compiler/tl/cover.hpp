#pragma once

#include "compiler/tl/memory.hpp"

namespace kiln::tl {

/// Calls body(offsets, mask) until it has covered elements kN * block, ..., kN * block + kN - 1, those below n, of
/// dense arrays that begin at `arrays`. Body makes its loads and then its stores at array + offsets under mask, and
/// takes tiles of any shape. On the GPU whole packets of aligned arrays, as nearly all are, are one tile of Shape<kN>,
/// each under a condition of its own, so that a call's last block runs the code that the others run: with a branch to
/// code for blocks that are not whole, calls of a few thousand elements took 1 to 2.5 us longer, while that code was
/// brought in and went through the block in steps. What is left, fewer elements than a packet has or those of arrays
/// that are not aligned, takes smaller tiles; kInFlight bounds the elements of a thread in one of them (more keep more
/// of memory's latency busy and take longer to compile).
template <int kN, int kInFlight, typename Body, typename... T>
KILN_DEVICE void cover(int64_t block, int64_t n, Body body, [[maybe_unused]] T*... arrays) {
#if defined(KILN_TARGET_CUDA)
  // What stands before the first load is short, and none of it waits for what could have been asked for earlier: the
  // thread's number, which takes long to read, is read first, and where packets end follows from what is given.
  asm volatile("" ::"r"(threadIdx.x));
  constexpr int kShift = [] {
    int shift = 0;
    while (1 << shift < kN) ++shift;
    return shift;
  }();
  constexpr int64_t kPacketElements = Blocked<Shape<kN>>::kVector;
  const bool is_aligned = (misaligned_bits<kN>(arrays) | ...) == 0;
  const int64_t packets_end = is_aligned ? n & -kPacketElements : 0;
  // A branch would stand before the loads: only where there is much to compute for nothing.
  if (kInFlight > 1 || __builtin_expect(is_aligned, 1))
    body(block * kN + arange<kN>(), PacketMask<Shape<kN>>{packets_end - block * kN});
  n = opaque(n);  // body may need all registers
  if (__builtin_expect(is_aligned && ((n & (kPacketElements - 1)) == 0 || block != n >> kShift), 1)) return;
  // Neighbouring threads on neighbouring elements: row t, column c of the tile is element c * kNumThreads + t. Behind
  // packets they are the last threads', which had none to wait for where a block is less than full.
  constexpr int kColumns = smaller(smaller(kInFlight, larger(1, kVectorWidth / 4)), larger(1, kN / kNumThreads));
  const int64_t first = is_aligned ? n & -kPacketElements : block * kN;
  const int64_t end = n - block * kN < kN ? n : block * kN + kN;
  KILN_NO_UNROLL for (int64_t start = is_aligned && n >= kNumThreads ? end - kNumThreads : first; start < end;
                      start += kColumns * kNumThreads) {
    const auto offsets = make_affine<Shape<kNumThreads, kColumns>>(start, Constant<1>{}, Constant<kNumThreads>{});
    const auto mask = (offsets < end) & (offsets >= first);
    body(offsets, PartialMask<remove_cvref_t<decltype(mask)>>{mask});
  }
#else
  const auto offsets = block * kN + arange<kN>();
  const auto mask = offsets < n;
  // The same call twice: each is optimised for what is known where it stands, and instantiated once. With a test at
  // each access instead the first operand waits in registers for the second (maximum of 28679 f32 with AVX2: 5.3 us,
  // and 3.5 so). A body that is long to compile stands once.
  if (kInFlight > 1 && mask.all())
    body(offsets, mask);
  else
    body(offsets, mask);
#endif
}

/// As cover(), with blocks that begin at a cache line of `out`, one more of them for the elements before the first:
/// only whole lines can go past the caches, and arrays begin anywhere (those of malloc 16 bytes behind a line).
template <int kN, typename Body, typename T>
KILN_DEVICE void cover_lines(int64_t block, int64_t n, Body body, T* out) {
#if defined(KILN_TARGET_CUDA)
  cover<kN, 1>(block, n, body, out);
#else
  const int64_t first =
      block * kN - elements_into_line(out) % kN;  // of blocks shorter than a line: into one of its parts
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
