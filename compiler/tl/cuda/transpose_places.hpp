#pragma once

// Where the elements of a transposed tile lie in shared memory: arithmetic alone, so that a test on the host can count
// the bank conflicts.

namespace kiln::tl {

/// A tile of kRows x kColumns elements that leaves shared memory transposed: kColumns rows of kRows elements, in chunks
/// of 16 bytes. Threads bring it in as words of 4 bytes (8 for an 8-byte type) along its rows, one from each of
/// kPerChunk rows: enough to turn into whole chunks in registers, and neighbouring threads read neighbouring words
/// whatever the alignment of the rows. Blocks with 16 bytes on both sides were the alternative; they need rows that
/// start at multiples of 16 bytes.
///
/// Chunks of one place in neighbouring words' columns would meet in one bank: each column deals its chunks out in an
/// order of its own, so that eight threads that write (neighbouring words) or read (neighbouring chunks, from any on)
/// 16 bytes each touch every bank once. Padding the columns by a chunk was the alternative; neighbouring words' columns
/// of narrow types are 2 or 4 apart, and would still meet.
template <int kElementBytes, int kRows, int kColumns>
struct TransposePlaces {
  static constexpr int kWordBytes = kElementBytes == 8 ? 8 : 4;
  static constexpr int kPerWord = kWordBytes / kElementBytes;
  static constexpr int kPerChunk = 16 / kElementBytes;
  static constexpr bool kPossible = kRows >= kPerChunk && kColumns >= kPerWord;

  static constexpr int kWordsPerRow = kColumns / kPerWord;
  /// A strip is one word of each of kPerChunk rows; strip s holds word s % kWordsPerRow of row group s / kWordsPerRow.
  static constexpr int kStrips = kWordsPerRow * (kRows / kPerChunk);

  static constexpr int kChunksPerColumn = kRows / kPerChunk;
  static constexpr int kColumnBytes = kRows * kElementBytes;
  static constexpr int kBytes = kColumns * kColumnBytes;

  /// The number that a column's chunks are reordered by. Columns shorter than the 128 bytes of all banks lie several
  /// side by side.
  static constexpr int order(int column) {
    constexpr int kOrders = kChunksPerColumn < 8 ? kChunksPerColumn : 8;
    return static_cast<int>(static_cast<unsigned int>(column) / (kPerWord * (8 / kOrders)) % kOrders);
  }
  /// Byte offset of chunk `chunk` (rows chunk * kPerChunk and on) of a column.
  static constexpr int chunk_offset(int column, int chunk) {
    return column * kColumnBytes + (chunk ^ order(column)) * 16;
  }
  /// Byte offset of the same chunk of column + step, where the two have no bit in common: cheap where step is known.
  static constexpr int moved(int offset_bytes, int step) {
    return (offset_bytes ^ order(step) * 16) + step * kColumnBytes;
  }
  /// Byte offset of row `row` of a column, for accesses that stay within a chunk.
  static constexpr int element_offset(int column, int row) {
    const unsigned int r = static_cast<unsigned int>(row);
    return chunk_offset(column, static_cast<int>(r / kPerChunk)) + static_cast<int>(r % kPerChunk) * kElementBytes;
  }
};

}  // namespace kiln::tl
