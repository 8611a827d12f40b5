#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/tensor.hpp"

namespace kiln::test {

/// A view of `tensor` with other metadata, `offset` elements further on.
inline Tensor view_of(const Tensor& tensor, const Dims& shape, const Dims& strides, std::int64_t offset = 0) {
  TensorView view = tensor.view();
  view.data = static_cast<std::byte*>(view.data) + offset * itemsize_bytes(view.dtype);
  view.shape = shape;
  view.strides = strides;
  return {view, tensor.owner()};
}

/// A tensor of the same memory with the dimensions in another order.
inline Tensor permuted(const Tensor& tensor, const std::vector<int>& axes) {
  Dims shape = tensor.shape(), strides = tensor.strides();
  for (int axis = 0; axis < shape.size(); ++axis) {
    shape[axis] = tensor.shape()[axes[static_cast<std::size_t>(axis)]];
    strides[axis] = tensor.strides()[axes[static_cast<std::size_t>(axis)]];
  }
  return view_of(tensor, shape, strides);
}

/// tensor[.., index, ..] along an axis.
inline Tensor selected(const Tensor& tensor, int axis, std::int64_t index) {
  Dims shape, strides;
  for (int i = 0; i < tensor.view().ndim(); ++i) {
    if (i == axis) continue;
    shape.push_back(tensor.shape()[i]);
    strides.push_back(tensor.strides()[i]);
  }
  return view_of(tensor, shape, strides, index * tensor.strides()[axis]);
}

/// A view with a dtype and shape but no memory, for what never reads data; dense where no strides are given.
inline TensorView shaped(DType dtype, const Dims& shape) {
  return dense_view(nullptr, dtype, shape);
}
inline TensorView shaped(DType dtype, const Dims& shape, const Dims& strides, Device device = Device::cpu()) {
  return {nullptr, dtype, device, shape, strides};
}

}  // namespace kiln::test
