#pragma once

#include "compiler/tl/cuda/pipeline_places.hpp"

// Which elements of an operand a lane holds for the tensor cores' mma instructions, and which chunks of shared memory
// it reads to get them: arithmetic alone, so that a test on the host can play it through.

namespace kiln::tl {

/// A fragment is what a warp takes of an operand for one step along K: 16 of its rows (of a; of its columns, of b) by
/// kStepK elements, in four registers of each lane. mma.m16n8 takes a's fragment whole, b's in two halves of 8 columns:
/// a's registers go through the two halves of the 16 first, b's through the two halves of K, so that what an
/// instruction takes lies in neighbouring registers. Lane 4 * group + quad holds in register q, of row or column
/// outer(group, half(q)), the 4 bytes of K from element inner(quad, q) on; where elements have 8 bytes, that one.
template <int kElementBytes, bool kOfB = false>
struct MmaPlaces {
  /// Two neighbouring bytes along an operand's rows cannot be told apart by ldmatrix, which moves pairs: with types of
  /// one byte, rows (columns, of b) are dealt out to the two halves by turns, so that a pair feeds both.
  static constexpr bool kInterleaved = kElementBytes == 1;
  static constexpr int kStepK = kElementBytes == 8 ? 8 : 32 / kElementBytes;

  static constexpr int half(int q) { return kOfB ? q / 2 : q % 2; }
  static constexpr int inner_half(int q) { return kOfB ? q % 2 : q / 2; }
  static constexpr int outer(int group, int half) { return kInterleaved ? 2 * group + half : group + 8 * half; }
  /// Lanes' two elements of 8 bytes are neighbours, so that one access of 16 bytes reads both; the order within K is
  /// free as long as a's and b's are the same.
  static constexpr int inner(int quad, int q) {
    return kElementBytes == 8 ? 2 * quad + inner_half(q) : (4 * quad + 16 * inner_half(q)) / kElementBytes;
  }
};

/// Where the fragments of an operand lie that has kOuter rows (columns, of b) and kK elements along K. kAlongK: its
/// lines in shared memory run along K.
template <int kElementBytes, bool kOfB, int kOuter, int kK, bool kAlongK>
struct FragmentPlaces {
  using Places = MmaPlaces<kElementBytes, kOfB>;
  static constexpr int kPerChunk = SharedPlaces::kChunkBytes / kElementBytes;
  static constexpr int kChunksPerLine = (kAlongK ? kK : kOuter) / kPerChunk;

  /// How a lane reads: four 8x8 matrices of 2-byte elements by ldmatrix, turned or not, or by ordinary reads.
  static constexpr bool kMatrices = kElementBytes < 4 || (kElementBytes == 4 && kAlongK);
  static constexpr bool kTurned = !kAlongK;

  static constexpr unsigned int chunk(int outer, int k) {
    return static_cast<unsigned int>(kAlongK ? outer * kChunksPerLine + k / kPerChunk
                                             : k * kChunksPerLine + outer / kPerChunk);
  }
  /// With types of one byte, whose lines run across K, four matrices of 8 numbers of K become the four registers once
  /// bytes_selector() has sorted the pairs that they hold: matrices 2 * h and 2 * h + 1 those with inner_half h.
  static constexpr int turned_byte_row(int matrix, int row) {
    return 16 * (matrix / 2) + 2 * (matrix % 2) + 4 * (row / 2) + row % 2;
  }
  /// Which bytes of such two words, numbered 0 to 7, register q takes; four bits each.
  static constexpr unsigned int bytes_selector(int q) { return Places::half(q) == 0 ? 0x6420 : 0x7531; }

  /// The chunk that `lane` names to ldmatrix for the first fragment, or where it reads register 0 of it. What it names
  /// for other fragments differs by chunk(16 * fragment, kStepK * step), in bits that are 0 here.
  static constexpr unsigned int lane_chunk(int lane) {
    const int matrix = lane / 8, row = lane % 8;
    if constexpr (!kMatrices)
      return chunk(lane / 4, Places::inner(lane % 4, 0));
    else if constexpr (kAlongK)
      return chunk(Places::outer(row, Places::half(matrix)), Places::inner_half(matrix) * kPerChunk);
    else if constexpr (kElementBytes == 2)
      return chunk(Places::half(matrix) * 8, Places::inner_half(matrix) * 8 + row);
    else
      return chunk(0, turned_byte_row(matrix, row));
  }
};

}  // namespace kiln::tl
