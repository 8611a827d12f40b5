#pragma once

// Included by kernels and by the host that fills this struct in.

#include "ops/attention/iteration.hpp"

namespace kiln::ops {

/// Packed sequences: as AttentionIteration, whose requests are sequences and whose strides over them are 0 but for the
/// slopes'. A sequence's own lengths and bounds take the place of those in `each`.
struct VarlenIteration {
  AttentionIteration each;
  long long all_queries, all_keys;  ///< rows of q, and of k and v
  long long max_queries;            ///< of a sequence; rows of q behind that many give what nobody's rows give
  long long sequences;
  long long q_start, k_start;  ///< strides of where sequences begin
  /// Where the form has these bounds: keys that a query sees before and behind its own place.
  long long left, right;
  bool is_top_left;  ///< query i stands at key i, not at i + its sequence's keys - queries
};

}  // namespace kiln::ops
