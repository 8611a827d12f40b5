#pragma once

// Included by the kernel, whose template argument this is, and by the host that names its values, so it includes
// nothing and uses only built-in types.

namespace kiln::ops {

/// What a call of rope has of all there is. What it does not have costs its kernel nothing.
struct RopeForm {
  int rotary_dim;      ///< even, 2 to 1024
  bool interleaved;    ///< neighbours are pairs; else the first half goes with the second
  bool is_dense;       ///< the numbers of a head lie side by side, in x and out
  bool copies_rest;    ///< heads have more numbers than those that turn
  bool inverse;        ///< turns back
  bool has_tables;     ///< cos and sin are read, else computed
  bool dense_tables;   ///< rows of both lie side by side
  bool has_positions;  ///< they are read
  bool blends;         ///< frequencies are blended (RopeTurns)

  constexpr int pairs() const { return rotary_dim / 2; }
  /// Extents of tiles are powers of two.
  constexpr int padded_pairs() const { return 1 << pair_bits(); }
  constexpr int pair_bits() const {
    int bits = 0;
    while ((1 << bits) < pairs()) ++bits;
    return bits;
  }
};

}  // namespace kiln::ops
