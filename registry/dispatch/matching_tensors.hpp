#pragma once

#include <cstddef>
#include <span>

#include "registry/plan/plan.hpp"

namespace kiln {
namespace detail {

inline bool matches(const Plan::TensorSlot& slot, const TensorView& view) noexcept {
  if (view.dtype != slot.dtype || view.device != slot.device || !(view.shape == slot.shape) ||
      view.strides.size() != slot.strides.size() || (slot.absent && view.data != nullptr))
    return false;
  for (int axis = 0; axis < slot.shape.size(); ++axis)
    if (view.strides[axis] != slot.strides[axis] && slot.shape[axis] > 1) return false;
  return true;
}

[[noreturn]] void throw_other_tensor(const Plan& plan, std::size_t tensor, const TensorView& view, const char* bound);
[[noreturn]] void throw_other_count(const Plan& plan, std::size_t num_inputs, std::size_t num_outputs,
                                    const char* bound);

}  // namespace detail

/// Pointers to the tensors of a call, in `storage`, once they are found to be what the plan was made for. UsageError
/// (value) naming the tensor that is not, with `bound` ("resolved") as what was done with the plan, and for addresses
/// that the op does not allow.
inline std::span<const TensorView* const> matching_tensors(const Plan& plan, std::span<const TensorView> inputs,
                                                           std::span<const TensorView> outputs, const char* bound,
                                                           PlanTensors& storage) {
  const std::size_t num_outputs = plan.outputs.size();
  if (outputs.size() != num_outputs || inputs.size() != plan.tensors.size() - num_outputs)
    detail::throw_other_count(plan, inputs.size(), outputs.size(), bound);
  for (std::size_t i = 0; i < plan.tensors.size(); ++i) {
    const TensorView& view = i < num_outputs ? outputs[i] : inputs[i - num_outputs];
    if (!detail::matches(plan.tensors[i], view)) detail::throw_other_tensor(plan, i, view, bound);
    storage[i] = &view;
  }
  const std::span<const TensorView* const> tensors(storage.data(), plan.tensors.size());
  check_memory(*plan.spec, tensors, plan.num_outputs(), plan.extents);
  return tensors;
}

}  // namespace kiln
