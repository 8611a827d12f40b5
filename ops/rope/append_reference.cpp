#include "ops/rope/append_reference.hpp"

#include <cstddef>
#include <vector>

#include "ops/kv_cache/paged_reference.hpp"
#include "ops/rope/append_problem.hpp"
#include "ops/rope/reference.hpp"

namespace kiln::rope {

void rope_append_reference(const OpCall& call) {
  const AppendProblem problem = append_problem(call.inputs, call.attributes);
  const TensorView &q = call.inputs[kQuery], &key = call.inputs[kKey], &slots = call.inputs[kSlots];
  rotate(problem.rotation, q, q);
  std::vector<std::byte> memory(static_cast<std::size_t>(key.numel() * itemsize_bytes(key.dtype)));
  const TensorView turned = dense_view(memory.data(), key.dtype, key.shape);
  rotate(problem.rotation, key, turned);
  kv_cache::append_rows(turned, call.inputs[kKeyCache], slots, problem.layout);
  kv_cache::append_rows(call.inputs[kValue], call.inputs[kValueCache], slots, problem.layout);
}

}  // namespace kiln::rope
