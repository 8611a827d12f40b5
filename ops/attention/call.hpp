#pragma once

#include <cstdint>

#include "ops/attention/block_times.hpp"
#include "ops/attention/iteration.hpp"
#include "ops/attention/kernel_form.hpp"
#include "ops/attention/problem.hpp"
#include "ops/op_spec.hpp"

namespace kiln::attention {

/// A call as the kernel sees it.
struct AttentionCall {
  AttentionProblem problem;
  DType dtype = DType::f32, out = DType::f32;    ///< of q and out
  DType mask = DType::bool_, sink = DType::f32;  ///< of inputs that may not be there
  TensorView key, value;                         ///< [B, H, S, D] whatever the layout
  /// Scratch memory that these views are of; -1: the call's tensors.
  int key_workspace = -1, value_workspace = -1;
  ops::AttentionForm form;
  ops::AttentionIteration iteration;
  std::int64_t outputs = 1, processors = 0;  ///< processors: multiprocessors, 0 if unknown

  /// The number of an input among the call's tensors, outputs first; -1 where it is not there.
  int tensor(Input input, bool is_there = true) const { return is_there ? static_cast<int>(outputs) + input : -1; }
  BlockWork work() const;
};

AttentionCall attention_call(const OpCall& call);

/// Fills in what follows from where a call's keys and values lie.
void set_key_strides(AttentionCall& call);

}  // namespace kiln::attention
