#include "ops/common/traffic.hpp"

namespace kiln::common {

double stored_bytes(const TensorView& view) {
  auto bytes = static_cast<double>(itemsize_bytes(view.dtype));
  for (int axis = 0; axis < view.ndim(); ++axis)
    if (view.strides[axis] != 0 || view.shape[axis] == 0) bytes *= static_cast<double>(view.shape[axis]);
  return bytes;
}

Cost each_tensor_once(const OpCall& call, double flops_per_element) {
  Cost cost{flops_per_element * static_cast<double>(call.outputs[0].numel()), 0};
  for (const auto tensors : {call.inputs, call.outputs})
    for (const TensorView& tensor : tensors)
      cost.bytes += static_cast<double>(tensor.numel() * itemsize_bytes(tensor.dtype));
  return cost;
}

}  // namespace kiln::common
