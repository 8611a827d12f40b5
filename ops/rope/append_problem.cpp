#include "ops/rope/append_problem.hpp"

#include <fmt/format.h>

#include <span>

#include "core/errors.hpp"
#include "ops/kv_cache/append_call.hpp"

namespace kiln::rope {

AppendProblem append_problem(const CallInputs& inputs, const Attributes& attributes) {
  AppendProblem problem;
  problem.layout = kv_cache::page_layout(kAppendOp, attributes);
  const TensorView &q = inputs[kQuery], &key = inputs[kKey];
  kv_cache::check_rank(kAppendOp, "q", q, 3, "[T, Hq, D]");
  kv_cache::check_append(kAppendOp, std::span<const TensorView>(inputs).subspan(kKey, kSlots), problem.layout);
  if (q.dtype != key.dtype)
    throw_type_error(fmt::format("op '{}': input 'key' is {}, expected {}, as 'q' is; cast it", kAppendOp,
                                 name(key.dtype), name(q.dtype)));
  if (q.shape[0] != key.shape[0] || q.shape[2] != key.shape[2])
    throw_value_error(
        fmt::format("op '{}': input 'key' has shape {} and 'q' {}; expected as many tokens, and heads of one size",
                    kAppendOp, to_string(key.shape), to_string(q.shape)));
  problem.rotation = rope_problem({.op = kAppendOp,
                                   .x_name = "q",
                                   .x = q,
                                   .cos = inputs.find(kAppendCos),
                                   .sin = inputs.find(kAppendSin),
                                   .positions = inputs.find(kAppendPositions)},
                                  attributes);
  return problem;
}

std::vector<TensorMeta> infer_append(const CallInputs& inputs, const Attributes& attributes) {
  append_problem(inputs, attributes);
  return {};
}

}  // namespace kiln::rope
