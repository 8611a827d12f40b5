#pragma once

#include <string>

#include "ops/op_spec.hpp"

namespace kiln::layout {

/// Adds the launch that copies tensor `in_tensor` of the call, which lies as `from` says, to a GPU's workspace as `to`
/// says, by the default config. They differ in dtype where it casts. UsageError(value) where `op` would need more
/// programs than a grid has.
void add_workspace_copy(const std::string& op, int workspace, const TensorView& to, int in_tensor,
                        const TensorView& from, const Target& target, LaunchPlan& plan);

}  // namespace kiln::layout
