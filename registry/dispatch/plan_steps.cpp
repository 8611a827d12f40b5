#include "registry/dispatch/plan_steps.hpp"

#include <cstddef>

#include "core/errors.hpp"
#include "registry/plan/numbered_tensors.hpp"
#include "runtime/host_memory.hpp"

namespace kiln {
namespace {

/// Where the GPU finds a tensor in host memory; an error names the tensor.
void* host_pointer(const Plan& plan, std::size_t tensor, const TensorView& view) {
  try {
    return device_pointer(view, plan.device);
  } catch (const UsageError& error) {
    throw UsageError(error.kind(), "op '" + plan.spec->name + "': " +
                                       tensor_label(*plan.spec, tensor, plan.outputs.size()) + ": " + error.what());
  }
}

}  // namespace

void point_to_host_tensors(const Plan& plan, std::span<const TensorView* const> tensors, CallPointers& data) {
  for (const std::size_t i : plan.host_tensors) data[i] = host_pointer(plan, i, *tensors[i]);
}

void point_to_workspaces(const Plan& plan, void* memory, CallPointers& data) noexcept {
  for (std::size_t i = 0; i < plan.workspace_offsets_bytes.size(); ++i)
    data[kMaxTensors + i] = static_cast<std::byte*>(memory) + plan.workspace_offsets_bytes[i];
}

}  // namespace kiln
