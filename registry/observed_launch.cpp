#include "registry/observed_launch.hpp"

#include "registry/plan.hpp"
#include "registry/profiled_call.hpp"

namespace kiln {

void observed_launch(const Plan& plan, std::span<const TensorView* const> tensors, Stream stream) {
  ProfiledCall* const call = ProfiledCall::current();
  if (call != nullptr) call->before_launch(&plan, stream);
  enqueue(plan, tensors, stream);
  if (call != nullptr) call->after_launch();
}

}  // namespace kiln
