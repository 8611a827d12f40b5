#pragma once

#include <span>

#include "core/tensor.hpp"
#include "runtime/stream.hpp"

namespace kiln {

struct Plan;

/// enqueue() of registry/plan.hpp while a recording or a profiler is active anywhere in the process.
void observed_launch(const Plan& plan, std::span<const TensorView* const> tensors, Stream stream);

}  // namespace kiln
