#pragma once

// Included by kernels and by the host that fills this struct in, so it includes nothing else and uses only built-in
// types.

#include "ops/kv_cache/iteration_paged.hpp"
#include "ops/rope/iteration.hpp"

namespace kiln::ops {

/// The largest numbers of the two types of 8 bits.
inline constexpr float kLargestE4m3 = 448, kLargestE5m2 = 57344;

/// In elements; 0 along an axis of one.
struct RopeRowStrides {
  long long token, head, element;
};

/// Blocks of heads of a token: those of q, then of its key, then of its value. Program p covers program_blocks of them
/// from (p % parts) * program_blocks on, for program_tokens tokens from (p / parts) * program_tokens on.
struct RopeAppendIteration {
  long long tokens, program_tokens;
  long long parts, program_blocks;
  long long query_heads, heads, head_dim;
  RopeRowStrides query, fresh[2];  ///< of q, and of the new keys and values
  PagedCache caches[2];            ///< of keys, of values
  long long slot_stride, position_stride;
  long long scale_strides[2];                                ///< over heads, of the scales of keys and of values
  long long table_row_strides[2], table_element_strides[2];  ///< of cos and sin
  long long positions;                                       ///< those from 0 to before this one are some
  RopeTurns turns;
};

}  // namespace kiln::ops
