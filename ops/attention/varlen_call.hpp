#pragma once

#include <cstdint>

#include "ops/attention/block_times.hpp"
#include "ops/attention/iteration_varlen.hpp"
#include "ops/attention/kernel_form.hpp"
#include "ops/attention/varlen_problem.hpp"
#include "ops/op_spec.hpp"

namespace kiln::attention {

/// A call as the kernel sees it.
struct VarlenCall {
  VarlenProblem problem;
  DType dtype = DType::f32, keys = DType::f32, out = DType::f32;  ///< of q, of k and v
  DType sink = DType::f32, index = DType::i32;
  bool has_key_starts = false, has_used_keys = false;
  ops::AttentionForm form;
  ops::VarlenIteration iteration;
  std::int64_t processors = 0;  ///< multiprocessors, 0 if unknown

  /// The number of an input among the call's tensors, outputs first; -1 where it is not there.
  int tensor(VarlenInput input, bool is_there = true) const {
    return is_there ? (problem.returns_lse ? 2 : 1) + input : -1;
  }
  /// Of sequences that are all as long as the longest.
  BlockWork work() const;
};
VarlenCall varlen_call(const OpCall& call);

}  // namespace kiln::attention
