#pragma once

#include <span>

#include "core/tensor.hpp"
#include "runtime/recording.hpp"

namespace kiln {

struct Plan;

/// Makes a call of `plan` part of a recording: on a GPU its kernels become nodes, on the CPU nothing runs. `tensors`
/// are as launch takes them. UsageError(value) for a plan that checks its data; DeviceError.
void record_launch(Recording& recording, const Plan& plan, std::span<const TensorView* const> tensors, Stream stream);

}  // namespace kiln
