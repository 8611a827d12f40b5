#pragma once

#include <cstdint>

#include "ops/op_spec.hpp"
#include "ops/rope/iteration.hpp"
#include "ops/rope/kernel_form.hpp"
#include "ops/rope/problem.hpp"

namespace kiln::rope {

/// A call as the kernel sees it.
struct RopeCall {
  DType dtype = DType::f32;
  DType table = DType::f32, position = DType::i64;  ///< of inputs that may not be there
  ops::RopeForm form;
  ops::RopeIteration iteration;  ///< what a config decides is left open
  std::int64_t outer = 1;        ///< tokens beside those that rows run along
  std::int64_t processors = 0;   ///< see OpCall
};

/// Numbers of a row of a tile: a head's pairs, or with neighbours that lie side by side both numbers of each.
std::int64_t row_width(const ops::RopeForm& form);

/// All but is_dense.
ops::RopeForm form_of(const RopeProblem& problem);
/// Of cos and sin, which the call has.
void set_table_strides(const RopeProblem& problem, long long (&rows)[2], long long (&elements)[2]);

RopeCall rope_call(const OpCall& call);

}  // namespace kiln::rope
