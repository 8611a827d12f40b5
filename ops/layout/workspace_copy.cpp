#include "ops/layout/workspace_copy.hpp"

#include "ops/layout/copy_config.hpp"
#include "ops/layout/copy_plan.hpp"

namespace kiln::layout {

void add_workspace_copy(const std::string& op, int workspace, const TensorView& to, int in_tensor,
                        const TensorView& from, const Target& target, LaunchPlan& plan) {
  const Copy copy = make_copy(to, from);
  const CopyKind kind = kind_of(copy, DeviceType::cuda);
  KernelLaunch& launch = plan.launches.emplace_back(
      make_launch(kind, op, copy, default_config(kind, copy, target), target, {.workspace = workspace}, in_tensor));
  launch.source = embedded_source("ops/layout/kernel.hpp");
}

}  // namespace kiln::layout
