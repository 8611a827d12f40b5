#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "core/dtype.hpp"
#include "runtime/memory.hpp"
#include "runtime/stream.hpp"
#include "tests/support/elements.hpp"

namespace kiln::test {

/// A dense tensor of these elements in row-major order, of which `dtype` has the size of T; of nothing in particular
/// where there are none.
template <typename T>
Tensor tensor_of(DType dtype, const Dims& shape, const std::vector<T>& values, Device device = Device::cpu()) {
  const Tensor host = empty(shape, dtype, Device::cpu());
  if (!values.empty()) std::memcpy(host.data(), values.data(), values.size() * sizeof(T));
  return device.is_cuda() ? to_device(host, device) : host;
}

template <typename T>
Tensor tensor_of(DType dtype, const std::vector<T>& values, Device device = Device::cpu()) {
  return tensor_of(dtype, Dims{static_cast<std::int64_t>(values.size())}, values, device);
}

/// One dimension of numbers that the dtype has exactly.
inline Tensor tensor_of_numbers(DType dtype, const std::vector<double>& values) {
  const Tensor tensor = empty({static_cast<std::int64_t>(values.size())}, dtype, Device::cpu());
  for (std::size_t i = 0; i < values.size(); ++i)
    write_number(dtype, tensor.data_as<std::byte>() + i * static_cast<std::size_t>(itemsize_bytes(dtype)), values[i]);
  return tensor;
}

/// Of a dense tensor in the host's memory.
inline std::vector<double> numbers_of(const Tensor& tensor) {
  std::vector<double> values(static_cast<std::size_t>(tensor.numel()));
  const auto size = static_cast<std::size_t>(itemsize_bytes(tensor.dtype()));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = read_number(tensor.dtype(), tensor.data_as<std::byte>() + i * size);
  return values;
}

/// Of the unsigned dtype of T's size.
template <typename T>
Tensor bits_tensor(const std::vector<T>& values) {
  return tensor_of(unsigned_dtype(sizeof(T)), values);
}

inline Tensor make_f32(const Dims& shape, const std::vector<float>& values, Device device = Device::cpu()) {
  return tensor_of(DType::f32, shape, values, device);
}
inline Tensor make_f32(const std::vector<float>& values, Device device = Device::cpu()) {
  return tensor_of(DType::f32, values, device);
}

/// The elements of a dense tensor as T, once the default stream's work is done.
template <typename T>
std::vector<T> values_of(const Tensor& tensor) {
  synchronize(Stream::default_of(tensor.device()));
  const Tensor host = to_device(tensor, Device::cpu());
  const auto* const first = static_cast<const T*>(host.data());
  return {first, first + host.numel() * itemsize_bytes(host.dtype()) / static_cast<std::int64_t>(sizeof(T))};
}

inline std::vector<float> read_f32(const Tensor& tensor) {
  return values_of<float>(tensor);
}

}  // namespace kiln::test
