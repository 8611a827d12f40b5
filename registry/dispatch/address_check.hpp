#pragma once

#include <span>

#include "core/tensor.hpp"
#include "registry/plan/plan.hpp"
#include "runtime/stream.hpp"

namespace kiln {

/// Looks at the addresses that a call's inputs hold, just before its kernels follow them: UsageError(value), naming
/// input and entry, for one that is null. On a GPU a look waits for the stream, so only plans with a LaunchCheck have
/// one, and there the driver is asked too: the memory must be the call's device's, as far as the op goes.
void check_addresses(const Plan& plan, std::span<const TensorView* const> tensors, Stream stream);

}  // namespace kiln
