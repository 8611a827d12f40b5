#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <span>

#include "core/launch.hpp"
#include "core/tensor.hpp"

namespace kiln::python {

/// The tensors of one call, in place: an array of kMaxTensors would be cleared for each call.
class TensorList {
 public:
  TensorList() noexcept {}  // not defaulted: the bytes stay uninitialised
  ~TensorList() { std::destroy_n(data(), size_); }
  TensorList(const TensorList&) = delete;
  TensorList& operator=(const TensorList&) = delete;

  std::size_t size() const noexcept { return size_; }
  /// There must be room.
  Tensor& emplace_back() noexcept { return *new (bytes_ + size_++ * sizeof(Tensor)) Tensor; }
  std::span<const Tensor> span() const noexcept { return {data(), size_}; }
  const Tensor& operator[](std::size_t index) const noexcept { return data()[index]; }

 private:
  Tensor* data() noexcept { return std::launder(reinterpret_cast<Tensor*>(bytes_)); }
  const Tensor* data() const noexcept { return std::launder(reinterpret_cast<const Tensor*>(bytes_)); }
  alignas(Tensor) std::byte bytes_[kMaxTensors * sizeof(Tensor)];
  std::size_t size_ = 0;
};

}  // namespace kiln::python
