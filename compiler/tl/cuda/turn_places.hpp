#pragma once

// How lanes turn a tile in shared memory whose lines lie across K to one whose lines lie along it, block by block:
// arithmetic alone, so that a test on the host can play it through. A block is kOuter rows of a (columns, of b) by kK
// elements, 512 bytes, of which each lane moves 16. Neither reads nor writes meet in a bank, whatever the length of the
// lines (PanelPlaces).

namespace kiln::tl {

template <int kElementBytes, int kTileOuter>
struct TurnPlaces;

/// Of bytes: four 8x8 matrices of pairs, which ldmatrix turns, whose pairs byte permutations then part and whose rows
/// stmatrix puts.
template <int kTileOuter>
struct TurnPlaces<1, kTileOuter> {
  static constexpr int kOuter = 16, kK = 32;

  /// The line, of K, whose 16 bytes `lane` names to ldmatrix. Matrices 2 * h and 2 * h + 1 are of 16 K from 16 * h on.
  /// A lane gets K by fours, of which one matrix has two and the other the rest; which has which alternates, so that
  /// eight lines of a matrix lie in all banks.
  static constexpr int line_read(int lane) {
    const int matrix = lane / 8, pair = lane % 8 / 2;
    return matrix / 2 * 16 + pair * 4 + ((matrix % 2 != 0) != (pair >= 2) ? 2 : 0) + lane % 2;
  }
  /// Which bytes of words 2 * h and 2 * h + 1 that ldmatrix gave a lane, numbered 0 to 7, make the word 2 * h + i that
  /// stmatrix takes; four bits each.
  static constexpr unsigned int selector(int lane, int i) {
    const bool is_second = column(lane / 4, i) % 2 != 0;
    return lane % 4 < 2 ? (is_second ? 0x7531 : 0x6420) : (is_second ? 0x3175 : 0x2064);
  }
  /// The line (row of a, column of b) and the 16 bytes of it that `lane` names to stmatrix.
  static constexpr int line_written(int lane) { return column(lane % 8, lane / 8 % 2); }
  static constexpr int chunk_written(int lane) { return lane / 16; }

 private:
  /// Row `row` of the first matrix of two (i = 0) or of the second: the eight lie in all banks here, too.
  static constexpr int column(int row, int i) { return 2 * row + ((i != 0) != (row >= 4) ? 1 : 0); }
};

/// Of four bytes: a lane reads four elements one behind the other in K and writes them at once.
template <int kTileOuter>
struct TurnPlaces<4, kTileOuter> {
  static constexpr int kOuter = kTileOuter < 32 ? kTileOuter : 32, kK = 128 / kOuter;

  static constexpr int line_read(int lane) { return lane / kOuter * 4; }
  static constexpr int place_read(int lane) { return lane % kOuter; }
  static constexpr int line_written(int lane) { return lane % kOuter; }
  static constexpr int chunk_written(int lane) { return lane / kOuter; }
};

}  // namespace kiln::tl
