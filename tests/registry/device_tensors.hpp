#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "compiler/compilers.hpp"
#include "runtime/device_info.hpp"
#include "runtime/memory.hpp"
#include "runtime/stream.hpp"
#include "runtime/transfer/pinned_pool.hpp"

namespace kiln::testing {

/// Devices that this build and machine can compile for and run on.
inline std::vector<Device> available_devices() {
  std::vector<Device> devices;
  if (compiler_problem(DeviceType::cpu).empty()) devices.push_back(Device::cpu());
  if (compiler_problem(DeviceType::cuda).empty())
    for (int i = 0; i < device_count(DeviceType::cuda); ++i) devices.push_back(Device::cuda(i));
  return devices;
}

/// Of the first GPU, for the whole process: tensors in tests come and go.
inline PinnedPool& pinned_pool() {
  static auto* const pool = new PinnedPool(Device::cuda(0));
  return *pool;
}

/// Tests on every device there is.
class DevicesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    devices_ = available_devices();
    if (devices_.empty())
      GTEST_SKIP() << "no target: " << compiler_problem(DeviceType::cpu) << "; " << device_problem(DeviceType::cuda);
  }
  std::vector<Device> devices_;
};

inline Tensor make_f32(const Dims& shape, const std::vector<float>& values, Device device = Device::cpu()) {
  const Tensor host = empty(shape, DType::f32, Device::cpu());
  if (!values.empty()) std::memcpy(host.data(), values.data(), values.size() * sizeof(float));
  return device.is_cuda() ? to_device(host, device) : host;
}

inline Tensor make_f32(const std::vector<float>& values, Device device = Device::cpu()) {
  return make_f32(Dims{static_cast<std::int64_t>(values.size())}, values, device);
}

/// The elements of a dense f32 tensor, once the default stream's work is done.
inline std::vector<float> read_f32(const Tensor& tensor) {
  synchronize(Stream::default_of(tensor.device()));
  const Tensor host = to_device(tensor, Device::cpu());
  std::vector<float> values(static_cast<std::size_t>(host.numel()));
  if (!values.empty()) std::memcpy(values.data(), host.data(), values.size() * sizeof(float));
  return values;
}

/// A view of `tensor` with other metadata, `offset` elements further on.
inline Tensor view_of(const Tensor& tensor, const Dims& shape, const Dims& strides, std::int64_t offset = 0) {
  TensorView view = tensor.view();
  view.data = static_cast<std::byte*>(view.data) + offset * itemsize_bytes(view.dtype);
  view.shape = shape;
  view.strides = strides;
  return {view, tensor.owner()};
}

}  // namespace kiln::testing
