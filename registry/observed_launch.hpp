#pragma once

#include <span>

#include "core/tensor.hpp"
#include "runtime/stream.hpp"

namespace kiln {

struct Plan;

/// enqueue() of registry/plan.hpp while a recording or a profiler is active anywhere in the process.
void observed_launch(const Plan& plan, std::span<const TensorView* const> tensors, Stream stream);

/// Lets the recording that `stream` belongs to, if it does to one, keep the tensors' owners: their memory must outlive
/// the graph.
void keep_while_recording(std::span<const Tensor> tensors, Stream stream);

}  // namespace kiln
