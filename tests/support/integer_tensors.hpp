#pragma once

#include <cstdint>
#include <cstring>
#include <numeric>
#include <vector>

#include "ops/common/element.hpp"
#include "runtime/memory.hpp"
#include "runtime/stream.hpp"

namespace kiln::test {

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

}  // namespace kiln::test
