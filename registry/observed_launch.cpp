#include "registry/observed_launch.hpp"

#include "registry/plan.hpp"
#include "registry/profiled_call.hpp"
#include "registry/recorded_plan.hpp"
#include "runtime/recording.hpp"

namespace kiln {

void observed_launch(const Plan& plan, std::span<const TensorView* const> tensors, Stream stream) {
  ProfiledCall* const call = ProfiledCall::current();
  if (const auto recording = Recording::of_work(stream, plan.spec->name)) {
    if (call != nullptr) call->before_launch(&plan, stream, /*is_recorded=*/true);
    record_launch(*recording, plan, tensors, stream);
    if (call != nullptr) call->after_launch();
  } else if (call != nullptr) {
    enqueue_profiled(*call, plan, tensors, stream);
  } else {
    enqueue(plan, tensors, stream);
  }
}

void keep_while_recording(std::span<const Tensor> tensors, Stream stream) {
  if (const auto recording = Recording::of(stream))
    for (const Tensor& tensor : tensors) recording->keep(tensor.owner(), tensor.data());
}

}  // namespace kiln
