#include "ops/common/traffic.hpp"

namespace kiln::common {

double stored_bytes(const TensorView& view) {
  auto bytes = static_cast<double>(itemsize_bytes(view.dtype));
  for (int axis = 0; axis < view.ndim(); ++axis)
    if (view.strides[axis] != 0 || view.shape[axis] == 0) bytes *= static_cast<double>(view.shape[axis]);
  return bytes;
}

double whole_bytes(const TensorView& view) {
  return static_cast<double>(view.numel() * itemsize_bytes(view.dtype));
}

Cost each_tensor_once(const OpCall& call, double flops_per_element) {
  return {flops_per_element * static_cast<double>(call.outputs[0].numel()), sum_of_tensors(call, whole_bytes)};
}

}  // namespace kiln::common
