#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "core/device.hpp"
#include "core/dtype.hpp"
#include "core/shape.hpp"

namespace kiln {

/// A borrowed, DLPack-compatible view: any strides (zero and negative too, in elements), any device. Byte offsets are
/// already in `data`. Zero-size tensors are legal and may have a null `data`.
struct TensorView {
  void* data = nullptr;
  DType dtype = DType::f32;
  Device device;
  Dims shape;
  Dims strides;  ///< in elements; same length as shape

  int ndim() const noexcept { return shape.size(); }
  std::int64_t numel() const { return num_elements(shape); }
  bool is_contiguous() const;
};

/// The half-open byte range [begin, end) a view can touch; begin == end for zero-size views.
struct ByteRange {
  const std::byte* begin;
  const std::byte* end;
};
ByteRange byte_range(const TensorView& view);

/// A view that shares ownership of its memory.
class Tensor {
 public:
  Tensor() = default;
  Tensor(TensorView view, std::shared_ptr<void> owner) : view_(view), owner_(std::move(owner)) {}

  const TensorView& view() const noexcept { return view_; }
  /// For who makes the tensor: views are large, and to fill one here is faster than to copy one that was just filled.
  TensorView& view_in_place() noexcept { return view_; }
  operator const TensorView&() const noexcept { return view_; }
  void* data() const noexcept { return view_.data; }
  template <typename T>
  T* data_as() const noexcept {
    return static_cast<T*>(view_.data);
  }
  DType dtype() const noexcept { return view_.dtype; }
  Device device() const noexcept { return view_.device; }
  const Dims& shape() const noexcept { return view_.shape; }
  const Dims& strides() const noexcept { return view_.strides; }
  std::int64_t numel() const { return view_.numel(); }
  const std::shared_ptr<void>& owner() const noexcept { return owner_; }

 private:
  TensorView view_;
  std::shared_ptr<void> owner_;
};

/// Dense row-major view over caller-owned memory. UsageError(value) for a negative extent.
TensorView dense_view(void* data, DType dtype, const Dims& shape, Device device = Device::cpu());
/// "f32 (4000, 3000) strides (3000, 1) on cuda:0", for messages.
std::string describe(const TensorView& view);

}  // namespace kiln
