#pragma once

#include "compiler/tl/cuda/packed_arithmetic.hpp"

namespace kiln::tl {

// Four numbers of 8 bits in one instruction: the compiler takes bytes one by one.

/// f over words of four registers.
template <typename F, typename T, typename S, typename L>
KILN_DEVICE Tile<T, S, L> map_words(F f, const Tile<T, S, L>& x) {
  Tile<T, S, L> result;
  KILN_UNROLL for (int r = 0; r < L::kRegisters; r += 4) {
    uint32_t word;
    memcpy(&word, &x.registers[r], sizeof(word));
    word = f(word);
    memcpy(&result.registers[r], &word, sizeof(word));
  }
  return result;
}
inline constexpr uint32_t kEachByte = 0x01010101u;

// More specialised than arithmetic.hpp's operators, so these are taken where they apply.

template <typename S, typename L, Integer Bits>
  requires(L::kRegisters % 4 == 0)
KILN_DEVICE auto operator&(const Tile<uint8_t, S, L>& x, Bits bits) {
  const uint32_t all = static_cast<uint8_t>(bits) * kEachByte;
  return map_words([all](uint32_t word) { return word & all; }, x);
}
template <typename S, typename L, Integer Count>
  requires(L::kRegisters % 4 == 0)
KILN_DEVICE auto operator>>(const Tile<uint8_t, S, L>& x, Count count) {
  const bool is_outside = static_cast<uint8_t>(count) >= 8;
  const int by = is_outside ? 0 : static_cast<uint8_t>(count);
  const uint32_t left = is_outside ? 0 : (0xffu >> by) * kEachByte;
  return map_words(
      [by, left](uint32_t word) {
        word >>= by;
        asm("" : "+r"(word));  // or else the compiler shifts each byte by itself
        return word & left;
      },
      x);
}

/// Bytes 0 and 1 (kPair 0), or 2 and 3, of `low` as the low halves of two numbers of 16 bits with bytes of `high`.
template <int kPair>
KILN_DEVICE uint32_t byte_pair(uint32_t low, uint32_t high) {
  return kPair == 0 ? __byte_perm(low, high, 0x5140) : __byte_perm(low, high, 0x7362);
}

/// A pair of a word's bytes, integers of 8 bits, as numbers of 16, exactly: put behind the exponent of a number that
/// has room for them, from which that number is subtracted. Its 7 bits do not hold a byte's highest in bf16, which
/// chooses what is subtracted; where it is known to be 0 that is a constant.
template <typename To, bool kIsSigned, int kPair>
KILN_DEVICE uint32_t widen_bytes(uint32_t word) {
  constexpr uint32_t kHighest = 0x80 * kEachByte;
  if constexpr (kIsSigned) word ^= kHighest;  // what is 128 more has no sign
  if constexpr (is_same<To, float16>) {
    constexpr uint32_t kLess = kIsSigned ? 0xe480e480u : 0xe400e400u;  // -1152 or -1024
    return add_pair<float16>(byte_pair<kPair>(word, 0x64 * kEachByte), kLess);
  } else {
    const uint32_t magnitude = byte_pair<kPair>(word & ~kHighest, 0x43 * kEachByte);  // 128 and the byte's 7 bits
    if constexpr (kIsSigned)  // -256, or -128 where the highest bit is set
      return add_pair<bfloat16>(magnitude, byte_pair<kPair>(~word & kHighest, 0xc3 * kEachByte));
    else  // -128, or 0 where it is
      return add_pair<bfloat16>(magnitude, byte_pair<kPair>(0, 0xc3 * kEachByte & ~((word & kHighest) / 128 * 255)));
  }
}

/// Integers of 8 bits as floats of 16.
template <Number To, Number From, typename S, typename L>
  requires((is_same<From, uint8_t> || is_same<From, int8_t>) && is_packable<To> && L::kRegisters % 4 == 0)
KILN_DEVICE Tile<To, S, L> cast(const Tile<From, S, L>& x) {
  constexpr bool kIsSigned = is_same<From, int8_t>;
  Tile<To, S, L> result;
  KILN_UNROLL for (int r = 0; r < L::kRegisters; r += 4) {
    uint32_t word;
    memcpy(&word, &x.registers[r], sizeof(word));
    const uint32_t pairs[2] = {widen_bytes<To, kIsSigned, 0>(word), widen_bytes<To, kIsSigned, 1>(word)};
    memcpy(&result.registers[r], pairs, sizeof(pairs));
  }
  return result;
}

}  // namespace kiln::tl
