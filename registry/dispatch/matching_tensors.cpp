#include "registry/dispatch/matching_tensors.hpp"

#include <string>

#include "core/errors.hpp"
#include "registry/plan/numbered_tensors.hpp"

namespace kiln::detail {

void throw_other_tensor(const Plan& plan, std::size_t tensor, const TensorView& view, const char* bound) {
  const Plan::TensorSlot& slot = plan.tensors[tensor];
  const TensorView expected{nullptr, slot.dtype, slot.device, slot.shape, slot.strides};
  throw_value_error("op '" + plan.spec->name + "' was " + bound + " for " +
                    tensor_label(*plan.spec, tensor, plan.outputs.size()) + " = " + describe(expected) + ", got " +
                    describe(view) + "; it has to be " + bound + " for these tensors");
}

void throw_other_count(const Plan& plan, std::size_t num_inputs, std::size_t num_outputs, const char* bound) {
  throw_value_error("op '" + plan.spec->name + "' was " + bound + " for " +
                    std::to_string(plan.tensors.size() - plan.outputs.size()) + " inputs and " +
                    std::to_string(plan.outputs.size()) + " outputs, got " + std::to_string(num_inputs) + " and " +
                    std::to_string(num_outputs));
}

}  // namespace kiln::detail
