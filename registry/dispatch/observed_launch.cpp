#include "registry/dispatch/observed_launch.hpp"

#include "registry/dispatch/enqueue.hpp"
#include "registry/dispatch/recorded_plan.hpp"
#include "runtime/recording.hpp"

namespace kiln {

void observed_launch(CallObserver* observer, const Plan& plan, std::span<const TensorView* const> tensors,
                     Stream stream) {
  if (const auto recording = Recording::of_work(stream, plan.spec->name)) {
    if (observer != nullptr) observer->before_launch(&plan, stream, /*is_recorded=*/true);
    record_launch(*recording, plan, tensors, stream);
    if (observer != nullptr) observer->after_launch();
  } else if (observer != nullptr) {
    enqueue_observed(*observer, plan, tensors, stream);
  } else {
    enqueue(plan, tensors, stream);
  }
}

void keep_while_recording(std::span<const Tensor> tensors, Stream stream) {
  if (const auto recording = Recording::of(stream))
    for (const Tensor& tensor : tensors) recording->keep(tensor.owner(), tensor.data());
}

}  // namespace kiln
