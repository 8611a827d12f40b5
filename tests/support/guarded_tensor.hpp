#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "core/tensor.hpp"
#include "registry/plan/memory_overlap.hpp"
#include "runtime/memory.hpp"
#include "tests/support/devices.hpp"
#include "tests/support/elements.hpp"
#include "tests/support/layout.hpp"
#include "tests/support/op_elements.hpp"

namespace kiln::test {

/// A tensor in a buffer with guard bytes on both sides and in its gaps. The buffer's image lives on the host; upload()
/// puts it on the device and download() brings it back.
class GuardedTensor {
 public:
  static constexpr std::int64_t kGuardBytes = 256;
  static constexpr std::byte kPoison{0xA5};

  GuardedTensor(DType dtype, const Dims& shape, const Layout& layout) {
    host_view_ = {nullptr, dtype, Device::cpu(), shape, layout.strides};
    const MemoryExtent extent = memory_extent(host_view_);
    // Guards, offset and begin are multiples of the element size (which is at most 8), so elements are aligned to
    // themselves.
    data_offset_bytes_ = kGuardBytes + layout.offset_elements * itemsize_bytes(dtype) - extent.begin_bytes;
    image_ = empty(Dims{data_offset_bytes_ + extent.end_bytes + kGuardBytes}, DType::u8, Device::cpu());
    std::memset(image_.data(), std::to_integer<int>(kPoison), size_bytes());
    host_view_.data = image_.data_as<std::byte>() + data_offset_bytes_;
    remember();
  }

  const TensorView& host_view() const noexcept { return host_view_; }
  std::byte* at(std::int64_t offset_bytes) const { return static_cast<std::byte*>(host_view_.data) + offset_bytes; }

  void fill_random(const InputRange& range, bool special, std::mt19937_64& random) {
    for_each_element(host_view_,
                     [&](std::int64_t offset) { write_random(host_view_.dtype, at(offset), range, special, random); });
    remember();
  }

  /// Integers of [range.low, range.high] and nothing else.
  void fill_integers(const InputRange& range, std::mt19937_64& random) {
    for_each_element(host_view_, [&](std::int64_t offset) {
      write_integer_between(host_view_.dtype, at(offset), range.low, range.high, random);
    });
    remember();
  }
  /// Up to three elements become NaN, infinite, zero or one, in the columns from `first_column` on.
  void sprinkle_nonfinite(std::mt19937_64& random, std::int64_t first_column = 0) {
    TensorView columns = host_view_;
    std::int64_t first_offset_bytes = 0;
    if (first_column > 0) {
      const int last = columns.ndim() - 1;
      columns.shape[last] -= first_column;
      first_offset_bytes = first_column * columns.strides[last] * itemsize_bytes(columns.dtype);
    }
    std::vector<std::int64_t> offsets;
    for_each_element(columns, [&](std::int64_t offset) { offsets.push_back(first_offset_bytes + offset); });
    for (int i = 0; i < 3 && !offsets.empty(); ++i)
      write_nonfinite(host_view_.dtype, at(offsets[random() % offsets.size()]), random);
    remember();
  }

  /// The tensor on `device`, sharing the host image's layout.
  Tensor upload(Device device) {
    device_image_ = device.is_cuda() ? to_device(image_, device) : image_;
    TensorView view = host_view_;
    view.device = device;
    view.data = device_image_.data_as<std::byte>() + data_offset_bytes_;
    return {view, device_image_.owner()};
  }
  /// The same in pinned host memory that `device` reads and writes itself; where that is the CPU, any memory.
  Tensor upload_pinned(Device device) {
    if (!device.is_cuda()) return upload(device);
    device_image_ = pinned_pool().empty(image_.shape(), DType::u8);
    std::memcpy(device_image_.data(), image_.data(), size_bytes());
    TensorView view = host_view_;
    view.data = device_image_.data_as<std::byte>() + data_offset_bytes_;
    return {view, device_image_.owner()};
  }
  /// Brings back what the device wrote; its work is done.
  void download() {
    if (device_image_.data() == nullptr || device_image_.data() == image_.data()) return;
    const Tensor back = to_device(device_image_, Device::cpu());
    std::memcpy(image_.data(), back.data(), size_bytes());
  }

  /// The elements of a tensor of the same dtype and shape.
  void copy_elements(const GuardedTensor& other) {
    std::vector<std::int64_t> offsets;
    for_each_element(other.host_view_, [&](std::int64_t offset) { offsets.push_back(offset); });
    std::size_t index = 0;
    for_each_element(host_view_, [&](std::int64_t offset) {
      std::memcpy(at(offset), other.at(offsets[index++]), static_cast<std::size_t>(itemsize_bytes(host_view_.dtype)));
    });
    remember();
  }
  /// Later damage() counts from here.
  void remember() { before_.assign(image_.data_as<std::byte>(), image_.data_as<std::byte>() + size_bytes()); }

  /// Empty, or which byte changed since the last fill: any byte at all, or only those outside the elements.
  std::string damage(bool elements_may_change) const {
    std::vector<std::byte> expected = before_;
    if (elements_may_change)
      for_each_element(host_view_, [&](std::int64_t offset) {
        std::memcpy(expected.data() + data_offset_bytes_ + offset, at(offset),
                    static_cast<std::size_t>(itemsize_bytes(host_view_.dtype)));
      });
    const auto* now = image_.data_as<std::byte>();
    const auto [changed, was] = std::mismatch(now, now + size_bytes(), expected.begin());
    if (changed == now + size_bytes()) return {};
    return "byte " + std::to_string(changed - now - data_offset_bytes_) + " from the data pointer of " +
           describe(host_view_) + " changed from " + std::to_string(std::to_integer<int>(*was)) + " to " +
           std::to_string(std::to_integer<int>(*changed));
  }

 private:
  std::size_t size_bytes() const { return static_cast<std::size_t>(image_.numel()); }

  TensorView host_view_;
  std::int64_t data_offset_bytes_ = 0;
  Tensor image_, device_image_;
  std::vector<std::byte> before_;
};

}  // namespace kiln::test
