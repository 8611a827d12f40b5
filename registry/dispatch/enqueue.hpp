#pragma once

#include <span>

#include "registry/plan/call_observer.hpp"
#include "registry/plan/plan.hpp"

namespace kiln {

/// UsageError(value) for a plan with a LaunchCheck, during a capture.
void refuse_check(const Plan& plan);

/// Enqueues the plan's kernels over `tensors`, outputs first. Everything was checked before, but for what takes a look
/// at the device: UsageError(value) for host memory that is not pinned, for a failed LaunchCheck, and for one during
/// stream capture. Recordings and profilers are told by observed_launch.
void enqueue(const Plan& plan, std::span<const TensorView* const> tensors, Stream stream);
/// The same, told to `observer` just before the first kernel and after the last: what is allocated is no kernel's time.
void enqueue_observed(CallObserver& observer, const Plan& plan, std::span<const TensorView* const> tensors,
                      Stream stream);

}  // namespace kiln
