#pragma once

// Included by kernels and by the host that fills this struct in.

#include "ops/attention/iteration.hpp"
#include "ops/kv_cache/iteration_paged.hpp"

namespace kiln::ops {

/// Attention over pages of latent vectors: axis 0 counts parts of a request's keys and then blocks of rows, axis 1
/// requests. Row r of a program is query r / heads of head r % heads.
struct MlaIteration {
  long long queries;  ///< of each request
  long long first_request;
  int heads, splits;
  long long most_tokens;  ///< of a request: what its row of the table has room for
  float scale;
  AttentionStrides out, q_latent, q_rotary;
  PagedCache cache;  ///< `place_stride` is a parameter of its own
  long long out_split, lse_split;
  long long lse_batch, lse_head, lse_row;
  long long table_request, table_entry, length_stride;
};

}  // namespace kiln::ops
