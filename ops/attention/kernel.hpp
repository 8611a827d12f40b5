#pragma once

#include <kiln/tl.hpp>

#include "ops/attention/iteration.hpp"
#include "ops/attention/kernel_block.hpp"
#include "ops/attention/kernel_form.hpp"
#include "ops/attention/kernel_operand.hpp"
#include "ops/attention/kernel_order.hpp"
#include "ops/attention/kernel_places.hpp"

namespace kiln::ops {

/// A block of queries of one head for each program. M and S are the types of the mask and the sinks.
template <typename Out, typename Q, typename K, typename V, typename P, typename M, typename S, AttentionForm FORM,
          int BLOCK_M, int BLOCK_N, int NUM_STAGES, int PROGRAMS>
KILN_KERNEL_OF(PROGRAMS)
void attention_kernel(Out* out, float* lse, const Q* q, const K* k, const V* v, const M* mask, const float* slopes,
                      const S* sinks, const float* q_scales, const float* k_scales, const float* v_scales,
                      long long k_row, long long v_row, AttentionIteration it) {
  const BlockOfHead own = block_of_program<FORM>(it);
  attend_block<P, FORM, BLOCK_M, BLOCK_N, NUM_STAGES>(
      out, lse, q, k, v, mask, slopes, sinks, HeadScales{q_scales, k_scales, v_scales}, RowsInOrder{k_row, v_row}, it,
      own.block * BLOCK_M, own.head, it.first_request + tl::program_id(2));
}

}  // namespace kiln::ops
