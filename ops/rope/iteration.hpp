#pragma once

// Included by kernels and by the host that fills this struct in, so it includes nothing and uses only built-in types.

namespace kiln::ops {

/// What steps along the tokens: out, x, cos, sin, positions.
inline constexpr int kRopeOperands = 5;
/// Most dimensions of tokens beside the one that a tile's rows run along: kMaxRank - 3.
inline constexpr int kMaxRopeOuterDims = 9;
/// Most pairs of a head, as a power of two.
inline constexpr int kMostRopePairBits = 9;

/// How far an angle goes in one position, in turns, as fractions of 2^64. Pair i turns by `first` times the product of
/// ratios[b] over the bits b that i has, which is first * base^(-2 i / rotary_dim).
struct RopeTurns {
  unsigned long long first;
  unsigned long long ratios[kMostRopePairBits];
  /// Where frequencies are blended with those of a longer context: of one that turns by t, clamp(t * slope - start, 0,
  /// 1) stays as it is, and the rest is multiplied by `least`.
  double slope, start, least;
};

/// Program p covers heads from (p % head_blocks) * program_heads on, of tokens from (p / head_blocks % token_blocks) *
/// program_tokens on, at outer index p / (head_blocks * token_blocks), which outer_extents split with dimension 0
/// fastest. Strides in elements.
struct RopeIteration {
  long long tokens, token_blocks, program_tokens;
  long long heads, head_blocks, program_heads;
  long long head_dim;
  int num_outer_dims;
  long long outer_extents[kMaxRopeOuterDims];
  long long outer_strides[kRopeOperands][kMaxRopeOuterDims];
  /// Of cos and sin 0 where positions name their rows. Where there are no positions in memory, a token's offset is its
  /// position.
  long long token_strides[kRopeOperands];
  long long head_strides[2], element_strides[2];             ///< of out and x
  long long table_row_strides[2], table_element_strides[2];  ///< of cos and sin
  long long positions;                                       ///< those from 0 to before this one are some
  RopeTurns turns;
};

}  // namespace kiln::ops
