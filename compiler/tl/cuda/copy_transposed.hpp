#pragma once

#include "compiler/tl/cuda/access.hpp"
#include "compiler/tl/cuda/program.hpp"
#include "compiler/tl/cuda/transpose_strips.hpp"

namespace kiln::tl {

/// One tile of a matrix on its way from memory to memory, transposed; see copy_transposed. What usually runs is one
/// straight piece; tiles that reach out of the matrix, and rows that are not where the template's arguments promise,
/// take functions that are not inlined.
template <Number T, int kRows, int kColumns, bool kStraddling, int kSeamBytes>
struct TransposingCopy {
  using Places = TransposePlaces<sizeof(T), kRows, kColumns>;
  using Strips = TransposeStrips<T, kRows, kColumns>;
  using Word = typename Strips::Word;
  static_assert(sizeof(T) < 4 || !kStraddling, "words of one element start where elements do");
  static_assert(Places::kPossible, "a transposed tile has at least 16 bytes of rows and 4 bytes of columns");
  static constexpr int kSize = sizeof(T);
  static constexpr int kPerWord = Places::kPerWord;
  static constexpr int kPerChunk = Places::kPerChunk;
  /// Rows that a tile brings in beside those that it writes.
  static constexpr int kPad = kSeamBytes / kSize;
  static constexpr int kWindow = kRows - kPad;
  static_assert(kWindow >= kPerChunk && kWindow % kPerChunk == 0, "a window is whole packets of 16 bytes");
  /// 16-byte packets of a column's window, and how many are dealt out so that threads divide evenly.
  static constexpr int kPackets = kWindow / kPerChunk;
  static constexpr int kDealtPackets = kWindow > kRows / 2 ? Places::kChunksPerColumn : kPackets;

  unsigned char* shared;
  /// Row of the tile where the window of a row of the output starts that is at a multiple of kSeamBytes.
  int start_row;
  /// What of the tile lies in the matrix: rows up to end_row, columns up to end_column, which counts two words past the
  /// tile's end.
  int end_row, end_column;
  /// Whether two words may be read from any element of the tile on: more rows of the matrix follow.
  bool rows_follow;

  KILN_DEVICE T& element(int column, int row) const {
    return *reinterpret_cast<T*>(shared + Places::element_offset(column, row));
  }
  KILN_DEVICE static bool aligned(const void* address, int64_t stride, int bytes) {
    return ((reinterpret_cast<uint64_t>(address) | static_cast<uint64_t>(stride) * kSize) &
            static_cast<uint64_t>(bytes - 1)) == 0;
  }
  /// Bytes that a row of the output starts after a multiple of kSeamBytes.
  KILN_DEVICE static int misplaced_bytes(const T* address) {
    return kPad > 0 ? static_cast<int>(reinterpret_cast<uint64_t>(address) & (kSeamBytes - 1)) : 0;
  }

  /// body(i) for i = 0 ... kCount - 1, dealt to threads, in code that seldom runs.
  template <int kCount, typename F>
  KILN_DEVICE static void deal(F body) {
    KILN_NO_UNROLL for (int i = static_cast<int>(threadIdx.x); i < kCount; i += kNumThreads) body(i);
  }

  /// Bytes that `address` is past a multiple of a word.
  KILN_DEVICE static unsigned int past_word(const T* address) {
    return static_cast<unsigned int>(reinterpret_cast<uint64_t>(address)) & 3;
  }
  /// The first of the words that one at `address` straddles. Subtracted rather than masked: the compiler still sees
  /// that the pointer is one to global memory.
  KILN_DEVICE static const Word* word_before(const T* address, unsigned int past) {
    return reinterpret_cast<const Word*>(reinterpret_cast<const unsigned char*>(address) - past);
  }
  /// The word `past` bytes after `from`: where rows start at any byte it is put together out of two.
  template <bool kAnyAlignment, typename Read>
  KILN_DEVICE static Word word_at(const Word* from, unsigned int past, Read read) {
    if constexpr (kAnyAlignment)
      return __funnelshift_r(read(from), read(from + 1), 8 * past);
    else
      return read(from);
  }

  /// A tile with nothing missing.
  KILN_DEVICE void load_full(const T* first, int64_t stride) const {
    using Deal = typename Strips::Deal;
    if (!Deal::any()) return;
    const int group = Deal::first_outer(), word = Deal::first_inner();
    typename Strips::Strip strips[Deal::kCount];
    first += group * kPerChunk * stride + word * kPerWord;
    // Rows kPerWord apart, and so those of all groups, start equally far past a word. Bringing rows to shared memory as
    // they lie (cp.async of 16 bytes) was the alternative: no faster on an H200, and more code.
    unsigned int past[kPerWord];
    KILN_UNROLL for (int k = 0; k < kPerWord; ++k) past[k] = kStraddling ? past_word(first + k * stride) : 0;
    KILN_UNROLL for (int k = 0; k < kPerChunk; ++k) {
      const Word* const row = word_before(first + k * stride, past[k % kPerWord]);
      KILN_UNROLL for (int i = 0; i < Deal::kCount; ++i) {
        const Word* const from = row + (Deal::outer_step(i) * kPerChunk / kPerWord * stride + Deal::inner_step(i));
        strips[i][k] = word_at<kStraddling>(from, past[k % kPerWord], [](const Word* word) { return *word; });
      }
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
        const bool wanted = group * kPerChunk + k < copy.end_row;
        const unsigned int past = kAnyAlignment ? past_word(address) : 0;
        strip[k] = word_at<kAnyAlignment>(word_before(address, past), past,
                                          [&](const Word* from) { return load_if(wanted, from, Word{}); });
      }
      Strips::put(copy.shared, group, word, strip);
    });
    if constexpr (kPerWord > 1) {
      deal<kRows * 8>([&](int i) {
        const int row = i / 8, column = num_words * kPerWord + i % 8;
        if (row < copy.end_row && column < kColumns && column < copy.end_column)
          copy.element(column, row) = first[row * stride + column];
      });
    }
  }

  KILN_DEVICE void load(const T* first, int64_t stride) const {
    const bool full = end_row == kRows && end_column >= kColumns + (kStraddling && !rows_follow ? kPerWord : 0);
    const bool placed = kStraddling || kPerWord == 1 || aligned(first, stride, Places::kWordBytes);
    if (__builtin_expect(full && placed, 1))
      load_full(first, stride);
    else
      load_partial(*this, first, stride);
  }

  /// 16 bytes of the column that is `step` after `column` (see Places::moved), from byte `from` on.
  KILN_DEVICE uint4 packet(int column, int step, int from) const {
    const unsigned int first = static_cast<unsigned int>(from) / 16;
    const auto chunk = [&](unsigned int index) {
      return *reinterpret_cast<const uint4*>(
          shared + Places::moved(Places::chunk_offset(column, static_cast<int>(index)), step));
    };
    if constexpr (kPad == 0)
      return chunk(first);
    else
      return straddled<kSize>(chunk(first), chunk((first + 1) % Places::kChunksPerColumn), from & 15);
  }
  /// Writes packet `index` of the window of the output's row `row`, of which row start_row of the tile is at `row`.
  KILN_DEVICE static void put_packet(T* row, int misplaced, int index, const uint4& packet) {
    reinterpret_cast<uint4*>(reinterpret_cast<unsigned char*>(row) - misplaced)[index] = packet;
  }

  /// A tile with nothing missing.
  KILN_DEVICE void store_full(T* first, int64_t stride) const {
    using Deal = Dealt<kColumns, kDealtPackets>;
    static_assert(kNumThreads >= kDealtPackets, "a thread stores one packet of each of its columns");
    // A thread's first so many columns may each start elsewhere; each of the others starts as the one so many before
    // it.
    constexpr int kPhases = larger(1, kSeamBytes / (Deal::kDown * kSize));
    const int column = Deal::first_outer(), index = Deal::first_inner();
    if (!Deal::any() || index >= kPackets) return;
    first += column * stride;
    int misplaced[kPhases];
    KILN_UNROLL for (int i = 0; i < kPhases; ++i) misplaced[i] = misplaced_bytes(first + Deal::outer_step(i) * stride);
    KILN_UNROLL for (int i = 0; i < Deal::kCount; ++i) {
      const int before = misplaced[i % kPhases];
      put_packet(first + Deal::outer_step(i) * stride, before, index,
                 packet(column, Deal::outer_step(i), kSeamBytes - before + index * 16));
    }
  }

  /// The packets that lie in the matrix, and what does of those at the ends of its columns.
  static __device__ __noinline__ void store_partial(TransposingCopy copy, T* first, int64_t stride) {
    if (kPad > 0 || aligned(first, stride, 16)) {
      deal<kColumns * kDealtPackets>([&](int i) {
        const int column = i / kDealtPackets, index = i % kDealtPackets;
        if (column >= copy.end_column || index >= kPackets) return;
        T* const row = first + column * stride;
        const int misplaced = misplaced_bytes(row);
        const int begin = copy.start_row - misplaced / kSize + index * kPerChunk;
        if (begin >= 0 && begin + kPerChunk <= copy.end_row) {
          put_packet(row, misplaced, index, copy.packet(column, 0, begin * kSize));
        } else {
          KILN_NO_UNROLL for (int k = 0; k < kPerChunk; ++k) if (begin + k >= 0 && begin + k < copy.end_row)
              row[begin + k - copy.start_row] = copy.element(column, begin + k);
        }
      });
    } else {
      deal<kColumns * kRows>([&](int i) {
        const int column = i / kRows, row = i % kRows;
        if (column < copy.end_column && row < copy.end_row) first[column * stride + row] = copy.element(column, row);
      });
    }
  }

  KILN_DEVICE void store(T* first, int64_t stride) const {
    const bool full = start_row == kPad && end_row == kRows && end_column >= kColumns;
    const bool placed = kPad > 0 || aligned(first, stride, 16);
    if (__builtin_expect(full && placed, 1))
      store_full(first, stride);
    else
      store_partial(*this, first, stride);
  }
};

/// out[c, r] = x[r, c] for one tile of x, a matrix of rows x columns elements, each row dense; what trans of a load and
/// a store do, but with lines filled on both sides whatever the rows' alignment. Any alignment is right; the template's
/// arguments say what is fast.
/// kStraddling: rows of x are no multiple of 4 bytes apart, so that words are put together out of two; false for types
/// of 4 and 8 bytes.
/// kSeamBytes: 0 where rows of out are multiples of 16 bytes apart, else a power of two. Where the output of two tiles
/// meets lies at multiples of so many bytes in each of its rows: memory is written in sectors of 32 bytes, and one that
/// two programs write half each is read, changed and written twice. A tile then brings in kSeamBytes of rows more than
/// it writes, which another has brought into the cache: the tiles of row block b write about kRows - kSeamBytes /
/// sizeof(T) rows from b times so many on.
template <int kRows, int kColumns, bool kStraddling, int kSeamBytes, Number T>
KILN_DEVICE void copy_transposed(T* out, int64_t out_stride, const T* x, int64_t x_stride, int64_t row_block,
                                 int64_t column_block, int64_t rows, int64_t columns) {
  using Copy = TransposingCopy<T, kRows, kColumns, kStraddling, kSeamBytes>;
  const auto within = [](int64_t left, int most) { return static_cast<int>(left < most ? left : most); };
  // The first and the last tile lie within the matrix as far as it goes, so that they load as others do. Tiles without
  // a window stay where their chunks are the output's.
  const int64_t first_row = row_block * Copy::kWindow;
  int64_t tile_row = first_row - Copy::kPad, first_column = column_block * kColumns;
  if (Copy::kPad > 0 && tile_row > rows - kRows) tile_row = rows - kRows;
  if (tile_row < 0) tile_row = 0;
  if (first_column > columns - kColumns && columns >= kColumns) first_column = columns - kColumns;
  const Copy copy{shared_bytes<Copy::Places::kBytes>(), static_cast<int>(first_row - tile_row),
                  within(rows - tile_row, kRows), within(columns - first_column, kColumns + 2 * Copy::kPerWord),
                  rows - tile_row > kRows && x_stride >= 2 * Copy::kPerWord};
  sync_threads();  // an earlier tile may still be read
  copy.load(x + (tile_row * x_stride + first_column), x_stride);
  sync_threads();
  copy.store(out + (first_column * out_stride + first_row), out_stride);
}

}  // namespace kiln::tl
