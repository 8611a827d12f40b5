#pragma once

#include <cstdint>

#include "ops/op_spec.hpp"
#include "ops/rope/call.hpp"
#include "ops/rope/iteration_append.hpp"
#include "ops/rope/kernel_form.hpp"

namespace kiln::rope {

/// A call of rope_append as the kernel sees it.
struct AppendCall {
  DType dtype = DType::f32, cache = DType::f32;
  DType slots = DType::i64;
  DType table = DType::f32, position = DType::i64;  ///< of inputs that may not be there
  bool has_scales[2] = {false, false};              ///< for keys, for values
  ops::RopeForm form;
  ops::RopeAppendIteration iteration;  ///< what a config decides is left open
  std::int64_t processors = 0;         ///< see OpCall
};

AppendCall append_call(const OpCall& call);

}  // namespace kiln::rope
