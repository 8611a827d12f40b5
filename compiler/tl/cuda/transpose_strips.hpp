#pragma once

#include "compiler/tl/cuda/transpose_places.hpp"
#include "compiler/tl/tile.hpp"

namespace kiln::tl {

/// kOuter x kInner items dealt to threads, kAcross neighbouring threads on neighbouring inner indices: the calling
/// thread's item i. A thread takes the items of its outer indices before it goes on to others, and what i adds is known
/// to the compiler.
template <int kOuter, int kInner, int kAcross = smaller(kInner, kNumThreads)>
struct Dealt {
  static constexpr int kDown = kNumThreads / kAcross;
  static constexpr int kInnerCount = kInner / kAcross;
  static constexpr int kCount = larger(1, kOuter / kDown) * kInnerCount;
  static constexpr bool kAllThreads = kOuter >= kDown;

  KILN_DEVICE static constexpr int outer_step(int i) { return i / kInnerCount * kDown; }
  KILN_DEVICE static constexpr int inner_step(int i) { return i % kInnerCount * kAcross; }
  KILN_DEVICE static int first_outer() { return static_cast<int>(threadIdx.x / static_cast<unsigned int>(kAcross)); }
  KILN_DEVICE static int first_inner() { return static_cast<int>(threadIdx.x % static_cast<unsigned int>(kAcross)); }
  /// Where there are fewer items than threads, whether this thread has one.
  KILN_DEVICE static bool any() { return kAllThreads || first_outer() < kOuter; }
};

/// The strips of a tile that is being transposed (TransposePlaces), dealt to threads: words in, chunks out.
template <Number T, int kRows, int kColumns>
struct TransposeStrips {
  using Places = TransposePlaces<sizeof(T), kRows, kColumns>;
  static constexpr int kGroups = kRows / Places::kPerChunk;
  /// A warp reads 128 bytes of a row, and a thread more words of the rows that it has, whose addresses it then knows.
  static constexpr int kAcross = smaller(smaller(Places::kWordsPerRow, kNumThreads), larger(32, kNumThreads / kGroups));
  using Deal = Dealt<kGroups, Places::kWordsPerRow, kAcross>;
  using Word = conditional_t<sizeof(T) == 8, unsigned long long, unsigned int>;
  using Strip = Word[Places::kPerChunk];

  /// Writes a strip to its columns' chunks, each with one 16-byte access.
  KILN_DEVICE static void put(unsigned char* shared, int group, int word, const Strip& words) {
    KILN_UNROLL for (int column = 0; column < Places::kPerWord; ++column) {
      uint4 chunk;
      if constexpr (sizeof(T) == 8)
        memcpy(&chunk, words, sizeof chunk);
      else
        chunk = {column_word<0>(words, column), column_word<1>(words, column), column_word<2>(words, column),
                 column_word<3>(words, column)};
      *reinterpret_cast<uint4*>(shared + Places::chunk_offset(word * Places::kPerWord + column, group)) = chunk;
    }
  }

 private:
  /// Word kIndex of what one column of the strip becomes; column is a constant once loops are unrolled.
  template <int kIndex>
  KILN_DEVICE static unsigned int column_word(const Strip& words, int column) {
    if constexpr (sizeof(T) == 4) {
      return words[kIndex];
    } else if constexpr (sizeof(T) == 2) {
      return __byte_perm(words[2 * kIndex], words[2 * kIndex + 1], column == 0 ? 0x5410 : 0x7632);
    } else {
      // Two rows' bytes of this half in turn, then the column's out of both pairs.
      const unsigned int half = column < 2 ? 0x5140 : 0x7362;
      const unsigned int first = __byte_perm(words[4 * kIndex], words[4 * kIndex + 1], half);
      const unsigned int second = __byte_perm(words[4 * kIndex + 2], words[4 * kIndex + 3], half);
      return __byte_perm(first, second, column % 2 == 0 ? 0x5410 : 0x7632);
    }
  }
};

}  // namespace kiln::tl
