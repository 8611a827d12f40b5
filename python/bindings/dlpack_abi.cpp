#include "python/bindings/dlpack_abi.hpp"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <span>

#include "core/dlpack.hpp"
#include "core/errors.hpp"

namespace kiln::python::dlpack {
namespace {

template <typename M>
struct Export {
  explicit Export(const Tensor& exported) : tensor(exported) {
    const TensorView& view = tensor.view();
    for (int axis = 0; axis < view.ndim(); ++axis) {
      shape[static_cast<std::size_t>(axis)] = view.shape[axis];
      strides[static_cast<std::size_t>(axis)] = view.strides[axis];
    }
    const DlpackType type = to_dlpack_type(view.dtype);
    managed.array = {.data = view.data,
                     .device = {view.device.is_cuda() ? kCuda : kCpu, view.device.index},
                     .ndim = view.ndim(),
                     .dtype = {type.code, type.bits, type.lanes},
                     .shape = shape.data(),
                     .strides = strides.data(),
                     .byte_offset = 0};
    managed.context = this;
    managed.deleter = [](M* self) { delete static_cast<Export*>(self->context); };
  }

  Tensor tensor;
  std::array<std::int64_t, kMaxRank> shape{};
  std::array<std::int64_t, kMaxRank> strides{};
  M managed{};
};

/// from_dlpack_type by look-up: the place is read with each array of each call.
DType dtype_of(Type type) {
  static const auto* known = [] {
    auto* table = new std::array<std::int8_t, 16 * 8>;
    table->fill(-1);
    for (const DType dtype : kAllDTypes) {
      const DlpackType spelled = to_dlpack_type(dtype);
      (*table)[static_cast<std::size_t>(spelled.code * 8 + std::countr_zero(spelled.bits) % 8)] =
          static_cast<std::int8_t>(dtype);
    }
    return table;
  }();
  if (type.lanes == 1 && type.code < 16 && std::has_single_bit(type.bits) && type.bits >= 8) {
    const std::int8_t found = (*known)[static_cast<std::size_t>(type.code * 8 + std::countr_zero(type.bits) % 8)];
    if (found >= 0) return static_cast<DType>(found);
  }
  return from_dlpack_type({type.code, type.bits, type.lanes});  // says what is wrong
}

}  // namespace

TensorView view_of(const Array& array) {
  TensorView view;
  view.dtype = dtype_of(array.dtype);
  view.device = from_dlpack_device(array.device.type, array.device.id);
  if (array.ndim < 0 || array.ndim > kMaxRank)
    throw_value_error(fmt::format("it has {} dimensions; Kiln takes 0 to {}", array.ndim, kMaxRank));
  const auto rank = static_cast<std::size_t>(array.ndim);
  view.shape = rank == 0 ? Dims() : Dims(std::span<const std::int64_t>(array.shape, rank));
  if (array.strides == nullptr)
    view.strides = contiguous_strides(view.shape);
  else if (rank > 0)
    view.strides = Dims(std::span<const std::int64_t>(array.strides, rank));
  view.data = array.data == nullptr ? nullptr : static_cast<std::byte*>(array.data) + array.byte_offset;
  return view;
}

template <typename M>
M* export_tensor(const Tensor& tensor) {
  auto* exported = new Export<M>(tensor);
  if constexpr (requires { exported->managed.version; }) exported->managed.version = {1, 0};
  return &exported->managed;
}

template Managed* export_tensor<Managed>(const Tensor& tensor);
template ManagedVersioned* export_tensor<ManagedVersioned>(const Tensor& tensor);

}  // namespace kiln::python::dlpack
