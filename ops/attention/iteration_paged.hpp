#pragma once

// Included by kernels and by the host that fills this struct in.

#include "ops/attention/iteration.hpp"
#include "ops/kv_cache/iteration_paged.hpp"

namespace kiln::ops {

/// Attention over pages: axis 0 counts parts of a request's keys and then blocks of rows, axis 1 heads of the caches,
/// axis 2 requests. Rows of a program are the queries of all heads that share a head of the caches, a query's heads
/// side by side: row r is query r / group of head r % group.
struct PagedAttentionIteration {
  long long queries;                    ///< of each request
  long long first_head, first_request;  ///< of axes 1 and 2, which are shorter than there may be of both
  int group, splits;
  long long most_tokens;              ///< of a request: what its row of the table, or a list of all pages, has room for
  long long all_pages, start_stride;  ///< of a list of all requests' pages
  /// Where the form has these bounds: keys that a query sees before and behind its own place. Query i stands at key
  /// length - queries + i.
  long long left, right;
  float scale, softcap;
  AttentionStrides out, q;
  PagedCache k, v;  ///< `place_stride` is a parameter of its own
  long long out_split, lse_split;
  long long lse_batch, lse_head, lse_row;
  long long table_request, table_entry, length_stride;
  long long slope_batch, slope_head, sink_head;
  HeadScaleStrides q_scale, k_scale, v_scale;
};

}  // namespace kiln::ops
