#pragma once

#include "compiler/tl/arithmetic.hpp"
#include "compiler/tl/tuple.hpp"

namespace kiln::tl {

/// A counter, or the four random words that Philox makes of one.
struct PhiloxWords {
  uint32_t word[4];
};

inline constexpr int kPhiloxRounds = 10;

/// The two key words of each round.
struct PhiloxKeys {
  uint32_t low[kPhiloxRounds], high[kPhiloxRounds];
};

KILN_DEVICE constexpr PhiloxKeys philox_keys(uint64_t seed) {
  PhiloxKeys keys{};
  for (int round = 0; round < kPhiloxRounds; ++round) {
    keys.low[round] = static_cast<uint32_t>(seed) + static_cast<uint32_t>(round) * 0x9e3779b9u;
    keys.high[round] = static_cast<uint32_t>(seed >> 32) + static_cast<uint32_t>(round) * 0xbb67ae85u;
  }
  return keys;
}

/// Philox-4x32 with ten rounds (Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011).
/// `Keys` has the members of PhiloxKeys: a kernel that gets them as a parameter saves computing them in each thread.
template <typename Keys>
KILN_DEVICE PhiloxWords philox_words(const Keys& keys, PhiloxWords c) {
  KILN_UNROLL for (int round = 0; round < kPhiloxRounds; ++round) {
    const uint64_t first = uint64_t{0xd2511f53} * c.word[0];
    const uint64_t second = uint64_t{0xcd9e8d57} * c.word[2];
    c = {static_cast<uint32_t>(second >> 32) ^ c.word[1] ^ keys.low[round], static_cast<uint32_t>(second),
         static_cast<uint32_t>(first >> 32) ^ c.word[3] ^ keys.high[round], static_cast<uint32_t>(first)};
  }
  return c;
}
/// The block of a 64-bit counter.
template <typename Keys>
KILN_DEVICE PhiloxWords philox_words(const Keys& keys, uint64_t counter) {
  return philox_words(keys, PhiloxWords{static_cast<uint32_t>(counter), static_cast<uint32_t>(counter >> 32), 0, 0});
}

/// Four tiles, a Tuple, of the words that f makes of each element.
template <typename F, Number T, typename S, typename L, typename... Rest>
KILN_DEVICE auto map_to_words(F f, const Tile<T, S, L>& first, const Rest&... rest) {
  using Word = Tile<uint32_t, S, L>;
  Tuple<Word, Word, Word, Word> result;
  KILN_UNROLL for (int r = 0; r < L::kRegisters; ++r) {
    const PhiloxWords words = f(first.registers[r], rest.registers[r]...);
    result.first.registers[r] = words.word[0];
    result.second.registers[r] = words.word[1];
    result.third.registers[r] = words.word[2];
    result.fourth.registers[r] = words.word[3];
  }
  return result;
}

/// A counter word as a tile of shape S.
template <typename S, Operand C>
KILN_DEVICE auto counter_tile(const C& c) {
  if constexpr (Number<C>)
    return full_of<uint32_t, S>(cast<uint32_t>(c));
  else
    return broadcast_to_shape<S>(cast<uint32_t>(to_values(c)));
}

/// The four words, a Tuple of uint32 tiles (or numbers, where all counter words are numbers), that Philox-4x32 makes of
/// the counter (c0, c1, c2, c3) and the low and high word of `seed`. Counter words are integers, of which the lower 32
/// bits count; shapes broadcast.
template <Integer Seed, Operand C0, Operand C1, Operand C2, Operand C3>
KILN_DEVICE auto philox(Seed seed, const C0& c0, const C1& c1, const C2& c2, const C3& c3) {
  const PhiloxKeys keys = philox_keys(static_cast<uint64_t>(seed));
  using Mixed = decltype(c0 ^ c1 ^ c2 ^ c3);
  if constexpr (Number<Mixed>) {
    const PhiloxWords words =
        philox_words(keys, PhiloxWords{cast<uint32_t>(c0), cast<uint32_t>(c1), cast<uint32_t>(c2), cast<uint32_t>(c3)});
    return Tuple{words.word[0], words.word[1], words.word[2], words.word[3]};
  } else {
    using S = typename Mixed::shape;
    return map_to_words([&keys](uint32_t w0, uint32_t w1, uint32_t w2,
                                uint32_t w3) { return philox_words(keys, PhiloxWords{w0, w1, w2, w3}); },
                        counter_tile<S>(c0), counter_tile<S>(c1), counter_tile<S>(c2), counter_tile<S>(c3));
  }
}

/// Triton's: the lower 32 bits of an offset are counter word 0, the upper ones of a 64-bit offset word 1.
template <Integer I>
KILN_DEVICE uint64_t counter_of(I offset) {
  if constexpr (sizeof(I) > 4)
    return static_cast<uint64_t>(offset);
  else
    return static_cast<uint32_t>(offset);
}

/// Four uint32 (a Tuple of tiles, or of numbers for a number) for each offset, as triton.language.randint4x gives for
/// the same seed and offset. An index tile that is still symbolic has 64-bit elements.
template <Integer Seed, Operand Offset>
KILN_DEVICE auto randint4x(Seed seed, const Offset& offset) {
  const PhiloxKeys keys = philox_keys(static_cast<uint64_t>(seed));
  if constexpr (Number<Offset>) {
    const PhiloxWords words = philox_words(keys, counter_of(offset));
    return Tuple{words.word[0], words.word[1], words.word[2], words.word[3]};
  } else {
    return map_to_words([&keys](auto element) { return philox_words(keys, counter_of(element)); }, to_values(offset));
  }
}
/// The first of randint4x. Four times the work for each number: where there are many to make, take all four.
template <Integer Seed, Operand Offset>
KILN_DEVICE auto randint(Seed seed, const Offset& offset) {
  return randint4x(seed, offset).first;
}

/// What is made of one counter: kCount neighbouring elements of a tile.
template <Number T, int kCount>
struct Drawn {
  using value_type = T;
  static constexpr int kElements = kCount;
  T element[kCount];
};

/// The tile whose elements kCount c to kCount c + kCount - 1 are draw(words of counter first_counter + c), a Drawn<T,
/// kCount>. Where a thread holds kCount neighbours, Philox runs once for all of them.
template <int kN, typename Keys, typename F>
KILN_DEVICE auto draw_tile(const Keys& keys, uint64_t first_counter, F draw) {
  using Made = decltype(draw(PhiloxWords{}));
  using L = DefaultLayout<Shape<kN>>;
  constexpr int kCount = Made::kElements;
  static_assert(kN % kCount == 0, "a tile of random numbers holds whole blocks of Philox");
  Tile<typename Made::value_type, Shape<kN>> result;
#if defined(KILN_TARGET_CUDA)
  const auto draw_at = [&](int column) {
    return draw(philox_words(keys, first_counter + static_cast<uint32_t>(column) / kCount));
  };
  if constexpr (L::kVector >= kCount) {
    KILN_UNROLL for (int r = 0; r < L::kRegisters; r += kCount) {
      const Made drawn = draw_at(L::column(r));
      KILN_UNROLL for (int i = 0; i < kCount; ++i) result.registers[r + i] = drawn.element[i];
    }
  } else {
    KILN_UNROLL for (int r = 0; r < L::kRegisters; ++r) {
      const Made drawn = draw_at(L::column(r));
      auto value = drawn.element[0];
      KILN_UNROLL for (int i = 1; i < kCount; ++i) {
        const auto other = drawn.element[i];  // read before the choice: a load at a chosen index would be from memory
        value = L::column(r) % kCount == i ? other : value;
      }
      result.registers[r] = value;
    }
  }
#else
  // Word by word, element by element: loops over blocks that vectorise, which one loop over structs does not.
  constexpr int kBlocks = kN / kCount;
  uint32_t words[4][kBlocks];
  for (int block = 0; block < kBlocks; ++block) {
    const PhiloxWords made = philox_words(keys, first_counter + static_cast<uint64_t>(block));
    for (int i = 0; i < 4; ++i) words[i][block] = made.word[i];
  }
  typename Made::value_type elements[kCount][kBlocks];
  for (int block = 0; block < kBlocks; ++block) {
    const Made drawn = draw(PhiloxWords{words[0][block], words[1][block], words[2][block], words[3][block]});
    for (int i = 0; i < kCount; ++i) elements[i][block] = drawn.element[i];
  }
  for (int block = 0; block < kBlocks; ++block)
    for (int i = 0; i < kCount; ++i) result.registers[block * kCount + i] = elements[i][block];
#endif
  return result;
}

}  // namespace kiln::tl
