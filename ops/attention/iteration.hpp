#pragma once

// Included by kernels and by the host that fills this struct in, so it includes nothing and uses only built-in types.

namespace kiln::ops {

/// In elements; 0 along an axis of one.
struct AttentionStrides {
  long long batch, head, row, element;
};

/// In elements; 0 along an axis of one.
struct HeadScaleStrides {
  long long request, head;  ///< of keys and values
};

/// Attention of one query head and a block of queries for each program: blocks along axis 0, of heads_together heads in
/// turns, heads by so many along axis 1, requests along axis 2.
struct AttentionIteration {
  long long queries, keys;
  long long first_head, first_request;  ///< of axes 1 and 2, which are shorter than there may be of both
  int group;                            ///< query heads that share one of keys and values
  int heads_together;
  /// Query i sees keys from i + low to i + high, where the form has these bounds; its own place is i + diagonal.
  long long low, high, diagonal;
  float scale, softcap;
  AttentionStrides out, q, k, v, mask;     ///< `row` of k and v are parameters of their own
  long long lse_batch, lse_head, lse_row;  ///< strides, as the others
  long long slope_batch, slope_head, sink_head;
  HeadScaleStrides q_scale, k_scale, v_scale;
};

}  // namespace kiln::ops
