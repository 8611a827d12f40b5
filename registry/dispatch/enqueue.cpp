#include "registry/dispatch/enqueue.hpp"

#include <cstddef>
#include <optional>
#include <vector>

#include "core/errors.hpp"
#include "registry/dispatch/address_check.hpp"
#include "registry/dispatch/plan_steps.hpp"
#include "runtime/memory.hpp"

namespace kiln {
namespace {

/// Brings the check's workspace to the host and asks for the verdict.
void run_check(const Plan& plan, const CallPointers& data, Stream stream) {
  const auto workspace = static_cast<std::size_t>(plan.check->workspace);
  const std::int64_t end_bytes = workspace + 1 < plan.workspace_offsets_bytes.size()
                                     ? plan.workspace_offsets_bytes[workspace + 1]
                                     : plan.workspace_bytes;
  const Dims shape{end_bytes - plan.workspace_offsets_bytes[workspace]};
  std::vector<std::byte> bytes(static_cast<std::size_t>(shape[0]));
  copy(dense_view(bytes.data(), DType::u8, shape),
       dense_view(data[kMaxTensors + workspace], DType::u8, shape, plan.device), stream);
  synchronize(stream);
  plan.check->verdict(bytes);
}

/// enqueue and enqueue_observed; `observer` is null in the first. A template, so that the first is as it would be
/// alone.
template <bool is_observed_call>
[[gnu::always_inline]] inline void enqueue_for([[maybe_unused]] CallObserver* observer, const Plan& plan,
                                               std::span<const TensorView* const> tensors, Stream stream) {
  if (plan.steps.empty()) {
    if constexpr (is_observed_call) {
      observer->before_launch(&plan, stream, /*is_recorded=*/false);
      observer->after_launch();
    }
    return;
  }
  if (plan.check.has_value() && is_capturing(stream)) [[unlikely]]
    refuse_check(plan);  // before anything waits, which would end a capture that is not Kiln's
  if (!plan.tables.empty()) [[unlikely]]
    check_addresses(plan, tensors, stream);
  CallPointers data;
  point_to_tensors(plan, tensors, data);
  // Freed on the stream, after the last step, where launches overlap too: a kernel that starts early touches nothing
  // before the one ahead of it has ended, and whoever is given the memory next, here or on another stream, comes behind
  // the end of whole kernels, never behind the point where one let the next one in.
  std::optional<Tensor> workspace;
  if (plan.workspace_bytes > 0) {
    workspace.emplace(empty({plan.workspace_bytes}, DType::u8, stream));
    point_to_workspaces(plan, workspace->data(), data);
  }
  if constexpr (is_observed_call) observer->before_launch(&plan, stream, /*is_recorded=*/false);
  visit_steps(plan, data, [&](const Plan::Step& step, void** parameters) {
    if (plan.check.has_value() && &step == &plan.steps[plan.check->after_launches]) [[unlikely]]
      run_check(plan, data, stream);
    step.loaded->kernel->launch(step.geometry, parameters, stream);
  });
  if constexpr (is_observed_call) observer->after_launch();
}

}  // namespace

void enqueue(const Plan& plan, std::span<const TensorView* const> tensors, Stream stream) {
  enqueue_for<false>(nullptr, plan, tensors, stream);
}

void enqueue_observed(CallObserver& observer, const Plan& plan, std::span<const TensorView* const> tensors,
                      Stream stream) {
  enqueue_for<true>(&observer, plan, tensors, stream);
}

void refuse_check(const Plan& plan) {
  if (plan.check.has_value())
    throw_value_error("op '" + plan.spec->name +
                      "' was asked to check its data, for which it waits, and that cannot happen while the stream is "
                      "being captured: make the checked call before the capture, and capture it without the check");
}

}  // namespace kiln
