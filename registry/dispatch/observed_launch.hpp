#pragma once

#include <span>

#include "core/tensor.hpp"
#include "registry/plan/call_observer.hpp"
#include "runtime/stream.hpp"

namespace kiln {

struct Plan;

/// enqueue() while a recording or a profiler is active anywhere in the process. `observer` is told; null: nobody is.
void observed_launch(CallObserver* observer, const Plan& plan, std::span<const TensorView* const> tensors,
                     Stream stream);

/// Lets the recording that `stream` belongs to, if it does to one, keep the tensors' owners: their memory must outlive
/// the graph.
void keep_while_recording(std::span<const Tensor> tensors, Stream stream);

}  // namespace kiln
