#pragma once

// Included by kernels and by the host that fills this struct in.

#include "ops/attention/iteration.hpp"
#include "ops/kv_cache/iteration_paged.hpp"

namespace kiln::ops {

/// Packed sequences: as AttentionIteration, whose requests are sequences and whose strides over them are 0 but for the
/// slopes'. A sequence's own lengths and bounds take the place of those in `each`.
struct VarlenIteration {
  AttentionIteration each;
  long long all_queries, all_keys;  ///< rows of q, and of k and v
  long long max_queries;            ///< of a sequence; rows of q behind that many give what nobody's rows give
  long long sequences;
  long long q_start, k_start, used;  ///< strides of where sequences begin, and of how many keys they have
  /// Where the form has these bounds: keys that a query sees before and behind its own place.
  long long left, right;
  bool is_top_left;  ///< query i stands at key i, not at i + its sequence's keys - queries
  /// Of keys and values in pages; a `place_stride` is a parameter of its own.
  PagedCache k_cache, v_cache;
  long long table_sequence, table_entry;
  long long most_keys;  ///< of a sequence: what its row of the table has room for
};

}  // namespace kiln::ops
