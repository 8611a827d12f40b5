#pragma once

#include "compiler/tl/cuda/access.hpp"
#include "compiler/tl/cuda/transpose_strips.hpp"

namespace kiln::tl {

/// One tile of a matrix on its way from memory to memory, transposed; see copy_transposed. What usually runs is one
/// straight piece; tiles that reach out of the matrix, and rows that are not where the template's arguments promise,
/// take functions that are not inlined.
template <Number T, int kRows, int kColumns, bool kStraddling, bool kWindows>
struct TransposingCopy {
  using Places = TransposePlaces<sizeof(T), kRows, kColumns>;
  using Strips = TransposeStrips<T, kRows, kColumns>;
  using Word = typename Strips::Word;
  static_assert(sizeof(T) < 4 || (!kStraddling && !kWindows), "words of one element start where elements do");
  static_assert(Places::kPossible, "a transposed tile has at least 16 bytes of rows and 4 bytes of columns");
  static constexpr int kSize = sizeof(T);
  static constexpr int kPerWord = Places::kPerWord;
  static constexpr int kPerChunk = Places::kPerChunk;
  /// Rows that the tile has before the first that its windows may start at.
  static constexpr int kPad = kWindows ? kPerWord : 0;
  static constexpr int kWordsPerColumn = kRows / kPerWord - (kWindows ? 1 : 0);

  unsigned char* shared;
  /// What of the tile lies in the matrix: rows begin_row up to end_row, columns up to end_column, which counts two
  /// words past the tile's end.
  int begin_row, end_row, end_column;

  KILN_DEVICE bool all_rows() const { return begin_row == 0 && end_row == kRows; }
  KILN_DEVICE bool has_row(int row) const { return row >= begin_row && row < end_row; }
  KILN_DEVICE T& element(int column, int row) const {
    return *reinterpret_cast<T*>(shared + Places::element_offset(column, row));
  }
  KILN_DEVICE static bool aligned(const void* address, int64_t stride, int bytes) {
    return ((reinterpret_cast<uint64_t>(address) | static_cast<uint64_t>(stride) * kSize) &
            static_cast<uint64_t>(bytes - 1)) == 0;
  }
  /// Bytes that a row of the output starts after a multiple of 4, where rows may do so.
  KILN_DEVICE static int misplaced_bytes(const T* address) {
    return kWindows ? static_cast<int>(reinterpret_cast<uint64_t>(address) & 3) : 0;
  }

  /// body(i) for i = 0 ... kCount - 1, dealt to threads, in code that seldom runs.
  template <int kCount, typename F>
  KILN_DEVICE static void deal(F body) {
    KILN_NO_UNROLL for (int i = static_cast<int>(threadIdx.x); i < kCount; i += kNumThreads) body(i);
  }

  /// The word at `address`. Where rows start at any byte it is put together out of the two that it straddles.
  template <bool kAnyAlignment, typename Read>
  KILN_DEVICE static Word word_at(const T* address, Read read) {
    if constexpr (kAnyAlignment) {
      // Subtracted rather than masked: the compiler still sees that the pointer is one to global memory.
      const unsigned int past = static_cast<unsigned int>(reinterpret_cast<uint64_t>(address)) & 3;
      const Word* const pair = reinterpret_cast<const Word*>(reinterpret_cast<const unsigned char*>(address) - past);
      return __funnelshift_r(read(pair), read(pair + 1), 8 * past);
    } else {
      return read(reinterpret_cast<const Word*>(address));
    }
  }

  /// A tile with nothing missing.
  KILN_DEVICE void load_full(const T* first, int64_t stride) const {
    using Deal = typename Strips::Deal;
    if (!Deal::any()) return;
    const int group = Deal::first_outer(), word = Deal::first_inner();
    typename Strips::Strip strips[Deal::kCount];
    first += group * kPerChunk * stride + word * kPerWord;
    KILN_UNROLL for (int i = 0; i < Deal::kCount; ++i) {
      const T* address = first + (Deal::outer_step(i) * kPerChunk * stride + Deal::inner_step(i) * kPerWord);
      KILN_UNROLL for (int k = 0; k < kPerChunk; ++k, address += stride) strips[i][k] =
          word_at<kStraddling>(address, [](const Word* from) { return *from; });
    }
    KILN_UNROLL for (int i = 0; i < Deal::kCount; ++i)
        Strips::put(shared, group + Deal::outer_step(i), word + Deal::inner_step(i), strips[i]);
  }

  /// The words whose elements all lie in the matrix and that can be read without touching what follows their row; then
  /// the row's last elements, fewer than two words of them.
  static __device__ __noinline__ void load_partial(TransposingCopy copy, const T* first, int64_t stride) {
    constexpr bool kAnyAlignment = kPerWord > 1;
    const int complete = (copy.end_column - (kAnyAlignment ? kPerWord : 0)) / kPerWord;
    const int num_words = complete < Places::kWordsPerRow ? complete : Places::kWordsPerRow;
    deal<kRows / kPerChunk * Places::kWordsPerRow>([&](int i) {
      const int group = i / Places::kWordsPerRow, word = i % Places::kWordsPerRow;
      if (word >= num_words) return;
      typename Strips::Strip strip;
      const T* address = first + (group * kPerChunk * stride + word * kPerWord);
      KILN_UNROLL for (int k = 0; k < kPerChunk; ++k, address += stride) {
        const bool wanted = copy.has_row(group * kPerChunk + k);
        strip[k] = word_at<kAnyAlignment>(address, [&](const Word* from) { return load_if(wanted, from, Word{}); });
      }
      Strips::put(copy.shared, group, word, strip);
    });
    if constexpr (kPerWord > 1) {
      deal<kRows * 8>([&](int i) {
        const int row = i / 8, column = num_words * kPerWord + i % 8;
        if (copy.has_row(row) && column < kColumns && column < copy.end_column)
          copy.element(column, row) = first[row * stride + column];
      });
    }
  }

  KILN_DEVICE void load(const T* first, int64_t stride) const {
    const bool full = all_rows() && end_column >= kColumns + (kStraddling ? kPerWord : 0);
    const bool placed = kStraddling || kPerWord == 1 || aligned(first, stride, Places::kWordBytes);
    if (__builtin_expect(full && placed, 1))
      load_full(first, stride);
    else
      load_partial(*this, first, stride);
  }

  /// Columns become rows of `first`, 16 bytes at a time.
  KILN_DEVICE void store_chunks(T* first, int64_t stride) const {
    using Deal = Dealt<kColumns, Places::kChunksPerColumn>;
    const int column = Deal::first_outer(), chunk = Deal::first_inner();
    first += column * stride + chunk * kPerChunk;
    if (Deal::any())
      KILN_UNROLL for (int i = 0; i < Deal::kCount; ++i) *
          reinterpret_cast<uint4*>(first + (Deal::outer_step(i) * stride + Deal::inner_step(i) * kPerChunk)) =
          *reinterpret_cast<const uint4*>(
              shared + Places::chunk_offset(column + Deal::outer_step(i), chunk + Deal::inner_step(i)));
  }

  /// One word of a row of the output, which starts at `row_start`.
  KILN_DEVICE void store_word(T* row_start, int column, int word) const {
    const auto held = [&](int index) {
      return *reinterpret_cast<const Word*>(shared + Places::element_offset(column, index * kPerWord));
    };
    const int misplaced = misplaced_bytes(row_start);
    Word* const to = reinterpret_cast<Word*>(row_start - misplaced / kSize) + word;
    if constexpr (kWindows)
      *to = __funnelshift_rc(held(word), held(word + 1), 32 - 8 * static_cast<unsigned int>(misplaced));
    else
      *to = held(word);
  }
  KILN_DEVICE void store_words(T* first, int64_t stride) const {
    using Deal = Dealt<kColumns, kRows / kPerWord>;  // the last of a window's is left out
    const int column = Deal::first_outer(), word = Deal::first_inner();
    first += column * stride;
    if (Deal::any())
      KILN_UNROLL for (int i = 0; i < Deal::kCount; ++i) if (!kWindows || word + Deal::inner_step(i) < kWordsPerColumn)
          store_word(first + Deal::outer_step(i) * stride, column + Deal::outer_step(i), word + Deal::inner_step(i));
  }

  /// The whole words that lie in the matrix, then what is left at both ends of every row.
  KILN_DEVICE void store_partial_words(T* first, int64_t stride) const {
    const auto start_of = [](const T* row_start) { return kPad - misplaced_bytes(row_start) / kSize; };
    deal<kColumns * kRows / kPerWord>([&](int i) {
      const int column = i / (kRows / kPerWord), word = i % (kRows / kPerWord);
      T* const row_start = first + column * stride;
      const int row = start_of(row_start) + word * kPerWord;
      if (column < end_column && word < kWordsPerColumn && row >= begin_row && row + kPerWord <= end_row)
        store_word(row_start, column, word);
    });
    if constexpr (kPerWord > 1) {
      deal<kColumns * 8>([&](int i) {
        const int column = i / 8;
        T* const row_start = first + column * stride;
        const int start = start_of(row_start);
        const int word = i % 8 < 4 ? 0 : (end_row - start) / kPerWord;
        const int word_row = start + word * kPerWord, row = word_row + i % 4;
        const bool incomplete = word_row < begin_row || word_row + kPerWord > end_row;
        if (column < end_column && i % 4 < kPerWord && incomplete && word < kWordsPerColumn && has_row(row))
          row_start[row - kPad] = element(column, row);
      });
    }
  }
  static __device__ __noinline__ void store_partial(TransposingCopy copy, T* first, int64_t stride) {
    if (kWindows || kPerWord == 1 || aligned(first, stride, Places::kWordBytes)) {
      copy.store_partial_words(first, stride);
    } else {
      deal<kColumns * kRows>([&](int i) {
        const int column = i / kRows, row = i % kRows;
        if (column < copy.end_column && row < copy.end_row) first[column * stride + row] = copy.element(column, row);
      });
    }
  }

  KILN_DEVICE void store(T* first, int64_t stride) const {
    const bool full = all_rows() && end_column >= kColumns;
    const bool placed = kWindows || aligned(first, stride, 16);
    if (__builtin_expect(full && placed, 1)) {
      if constexpr (kWindows)
        store_words(first, stride);
      else
        store_chunks(first, stride);
    } else if (kPerWord == 1 && full) {
      store_words(first, stride);
    } else {
      store_partial(*this, first, stride);
    }
  }
};

/// out[c, r] = x[r, c] for one tile of x, a matrix of rows x columns elements, each row dense; what trans of a load and
/// a store do, but with lines filled on both sides whatever the rows' alignment. Any alignment is right; the template's
/// arguments say what is fast for 1- and 2-byte types (for others they are false).
/// kStraddling: rows of x are no multiple of 4 bytes apart, so that words are put together out of two.
/// kWindows: rows of out are no multiple of 16 bytes apart. A tile then writes whole words only, from the last multiple
/// of 4 bytes before its first row on, and so brings in a few rows more than it writes: the tiles of row block b start
/// at row b * (kRows - 4 / sizeof(T)) instead of b * kRows. Single elements at both ends of every row were the
/// alternative: as many requests again as the words are.
template <int kRows, int kColumns, bool kStraddling, bool kWindows, Number T>
KILN_DEVICE void copy_transposed(T* out, int64_t out_stride, const T* x, int64_t x_stride, int64_t row_block,
                                 int64_t column_block, int64_t rows, int64_t columns) {
  using Copy = TransposingCopy<T, kRows, kColumns, kStraddling, kWindows>;
  const int64_t first_row = row_block * (kRows - Copy::kPad), first_column = column_block * kColumns;
  const auto within = [](int64_t left, int most) { return static_cast<int>(left < most ? left : most); };
  const int64_t tile_row = first_row - Copy::kPad;
  const Copy copy{shared_bytes<Copy::Places::kBytes>(), tile_row < 0 ? static_cast<int>(-tile_row) : 0,
                  within(rows - tile_row, kRows), within(columns - first_column, kColumns + 2 * Copy::kPerWord)};
  __syncthreads();  // an earlier tile may still be read
  copy.load(x + (tile_row * x_stride + first_column), x_stride);
  __syncthreads();
  copy.store(out + (first_column * out_stride + first_row), out_stride);
}

}  // namespace kiln::tl
