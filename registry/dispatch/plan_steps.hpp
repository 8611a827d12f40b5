#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "core/launch.hpp"
#include "registry/plan/plan.hpp"

namespace kiln {

/// Where the GPU finds those of `tensors` that lie in host memory. UsageError(value) naming one that is not pinned.
void point_to_host_tensors(const Plan& plan, std::span<const TensorView* const> tensors, CallPointers& data);
/// Where the kernels of `plan` find `tensors`. UsageError as above.
inline void point_to_tensors(const Plan& plan, std::span<const TensorView* const> tensors, CallPointers& data) {
  for (std::size_t i = 0; i < tensors.size(); ++i) data[i] = tensors[i]->data;
  if (!plan.host_tensors.empty()) [[unlikely]]
    point_to_host_tensors(plan, tensors, data);
}
/// Divides `memory`, of plan.workspace_bytes.
void point_to_workspaces(const Plan& plan, void* memory, CallPointers& data) noexcept;

namespace detail {

/// Apart, so that the room for tensor maps is on the stack of those launches only that have them.
template <typename Visit>
[[gnu::noinline]] void visit_with_tensor_maps(const Plan::Step& step, CallPointers& data, void** parameters,
                                              const Visit& visit) {
  TensorMapSet::Storage storage;
  step.tensor_maps.bind(data.data(), storage, parameters);
  visit(step, parameters);
}

}  // namespace detail

/// Calls visit(step, parameters) for each step in order; `parameters` are good until visit returns.
template <typename Visit>
void visit_steps(const Plan& plan, CallPointers& data, const Visit& visit) {
  std::array<void*, kMaxArguments> parameters;
  for (const Plan::Step& step : plan.steps) {
    step.arguments.bind(data.data(), parameters.data());
    if (!step.tensor_maps.empty()) [[unlikely]] {
      detail::visit_with_tensor_maps(step, data, parameters.data(), visit);
      continue;
    }
    visit(step, parameters.data());
  }
}

}  // namespace kiln
