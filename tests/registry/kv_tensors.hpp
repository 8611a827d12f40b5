#pragma once

#include <cstdint>
#include <cstring>
#include <numeric>
#include <vector>

#include "ops/common/element.hpp"
#include "runtime/memory.hpp"
#include "runtime/stream.hpp"

namespace kiln::testing {

/// A dense tensor on `device` of these integers, in row-major order.
inline Tensor make_integers(DType dtype, const Dims& shape, const std::vector<std::int64_t>& values, Device device) {
  const Tensor host = empty(shape, dtype, Device::cpu());
  for (std::size_t i = 0; i < values.size(); ++i)
    common::store_element<std::int64_t>(host.data_as<std::byte>() + i * static_cast<std::size_t>(itemsize_bytes(dtype)),
                                        dtype, values[i]);
  return device.is_cuda() ? to_device(host, device) : host;
}

/// Of 16-bit patterns first, first + 1, ..., NaNs of bf16 among them: whoever moves values rather than bits shows.
inline Tensor make_patterns(const Dims& shape, std::int64_t first, Device device) {
  std::vector<std::int64_t> values(static_cast<std::size_t>(num_elements(shape)));
  std::iota(values.begin(), values.end(), first);
  const Tensor patterns = make_integers(DType::u16, shape, values, device);
  TensorView view = patterns.view();
  view.dtype = DType::bf16;
  return {view, patterns.owner()};
}

/// The elements' bits in row-major order, once the default stream's work is done.
inline std::vector<std::int64_t> read_bits(const Tensor& tensor) {
  synchronize(Stream::default_of(tensor.device()));
  TensorView view = tensor.view();
  view.dtype = unsigned_dtype(itemsize_bytes(view.dtype));
  const Tensor host = to_device(view, Device::cpu());
  std::vector<std::int64_t> values(static_cast<std::size_t>(host.numel()));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = common::load_element<std::int64_t>(
        host.data_as<std::byte>() + i * static_cast<std::size_t>(itemsize_bytes(view.dtype)), view.dtype);
  return values;
}

/// A tensor of the same memory with the dimensions in another order.
inline Tensor permuted(const Tensor& tensor, const std::vector<int>& axes) {
  TensorView view = tensor.view();
  for (int axis = 0; axis < view.ndim(); ++axis) {
    view.shape[axis] = tensor.shape()[axes[static_cast<std::size_t>(axis)]];
    view.strides[axis] = tensor.strides()[axes[static_cast<std::size_t>(axis)]];
  }
  return {view, tensor.owner()};
}

/// tensor[.., index, ..] along an axis.
inline Tensor selected(const Tensor& tensor, int axis, std::int64_t index) {
  TensorView view = tensor.view();
  view.data = static_cast<std::byte*>(view.data) + index * tensor.strides()[axis] * itemsize_bytes(tensor.dtype());
  view.shape = view.strides = Dims{};
  for (int i = 0; i < tensor.view().ndim(); ++i) {
    if (i == axis) continue;
    view.shape.push_back(tensor.shape()[i]);
    view.strides.push_back(tensor.strides()[i]);
  }
  return {view, tensor.owner()};
}

}  // namespace kiln::testing
