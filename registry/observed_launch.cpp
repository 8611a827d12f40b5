#include "registry/observed_launch.hpp"

#include "registry/plan.hpp"
#include "registry/recorded_plan.hpp"
#include "runtime/recording.hpp"

namespace kiln {

void observed_launch(const Plan& plan, std::span<const TensorView* const> tensors, Stream stream) {
  if (const auto recording = Recording::of_work(stream, plan.spec->name)) {
    record_launch(*recording, plan, tensors, stream);
    return;
  }
  enqueue(plan, tensors, stream);
}

void keep_while_recording(std::span<const Tensor> tensors, Stream stream) {
  if (const auto recording = Recording::of(stream))
    for (const Tensor& tensor : tensors) recording->keep(tensor.owner(), tensor.data());
}

}  // namespace kiln
