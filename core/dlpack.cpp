#include "core/dlpack.hpp"

#include <dlpack/dlpack.h>
#include <fmt/format.h>

#include <cstring>
#include <optional>

#include "core/errors.hpp"

namespace kiln {
namespace {

// Type codes of DLPack 1.1. Distributions still ship headers that lack the last three, so all are spelled here.
constexpr std::uint8_t kCodeInt = 0;
constexpr std::uint8_t kCodeUInt = 1;
constexpr std::uint8_t kCodeFloat = 2;
constexpr std::uint8_t kCodeBFloat = 4;
constexpr std::uint8_t kCodeBool = 6;
constexpr std::uint8_t kCodeFloat8E4M3FN = 10;
constexpr std::uint8_t kCodeFloat8E5M2 = 12;

std::uint8_t code_of(DType dtype) noexcept {
  switch (dtype) {
    case DType::bf16:
      return kCodeBFloat;
    case DType::fp8e4m3:
      return kCodeFloat8E4M3FN;
    case DType::fp8e5m2:
      return kCodeFloat8E5M2;
    case DType::bool_:
      return kCodeBool;
    default:
      return is_floating(dtype) ? kCodeFloat : info(dtype).is_signed ? kCodeInt : kCodeUInt;
  }
}

DLDataType export_dtype(DType dtype) {
  const DlpackType type = to_dlpack_type(dtype);
  return {type.code, type.bits, type.lanes};
}

Device import_device(const DLDevice& device) {
  // As an integer: producers built against newer headers send enumerators that this one lacks.
  std::int32_t type = 0;
  static_assert(sizeof(type) == sizeof(device.device_type));
  std::memcpy(&type, &device.device_type, sizeof(type));
  return from_dlpack_device(type, device.device_id);
}

TensorView import_view(const DLTensor& tensor) {
  const DType dtype = from_dlpack_type({tensor.dtype.code, tensor.dtype.bits, tensor.dtype.lanes});
  const Device device = import_device(tensor.device);
  if (tensor.ndim < 0 || tensor.ndim > kMaxRank)
    throw_value_error(fmt::format("DLPack tensor has {} dimensions; Kiln takes 0 to {}", tensor.ndim, kMaxRank));
  const auto rank = static_cast<std::size_t>(tensor.ndim);
  if (rank > 0 && tensor.shape == nullptr) throw_value_error("DLPack tensor has dimensions but no shape");
  const Dims shape = rank == 0 ? Dims() : Dims(std::span<const std::int64_t>(tensor.shape, rank));
  num_elements(shape);
  const Dims strides = rank == 0 || tensor.strides == nullptr
                           ? contiguous_strides(shape)
                           : Dims(std::span<const std::int64_t>(tensor.strides, rank));
  void* data = tensor.data == nullptr ? nullptr : static_cast<std::byte*>(tensor.data) + tensor.byte_offset;
  return {data, dtype, device, shape, strides};
}

/// What an exported tensor lives in: the struct that consumers see, and everything it points to.
struct Export {
  explicit Export(const Tensor& exported) : tensor(exported) {
    const TensorView& view = tensor.view();
    for (int axis = 0; axis < view.ndim(); ++axis) {
      shape[static_cast<std::size_t>(axis)] = view.shape[axis];
      strides[static_cast<std::size_t>(axis)] = view.strides[axis];
    }
    managed.dl_tensor = {.data = view.data,
                         .device = {view.device.is_cuda() ? kDLCUDA : kDLCPU, view.device.index},
                         .ndim = view.ndim(),
                         .dtype = export_dtype(view.dtype),
                         .shape = shape.data(),
                         .strides = strides.data(),
                         .byte_offset = 0};
    managed.manager_ctx = this;
    managed.deleter = [](DLManagedTensor* self) { delete static_cast<Export*>(self->manager_ctx); };
  }

  Tensor tensor;
  std::array<std::int64_t, kMaxRank> shape{};
  std::array<std::int64_t, kMaxRank> strides{};
  DLManagedTensor managed{};
};

}  // namespace

DlpackType to_dlpack_type(DType dtype) noexcept {
  return {code_of(dtype), static_cast<std::uint8_t>(8 * itemsize_bytes(dtype)), 1};
}

DType from_dlpack_type(DlpackType type) {
  if (type.lanes != 1)
    throw_type_error(fmt::format("DLPack tensor has {} lanes per element; Kiln takes 1", type.lanes));
  for (DType dtype : kAllDTypes)
    if (code_of(dtype) == type.code && 8 * itemsize_bytes(dtype) == type.bits) return dtype;
  throw_type_error(
      fmt::format("DLPack tensor has type code {} with {} bits, which is none of Kiln's dtypes", type.code, type.bits));
}

Device from_dlpack_device(std::int32_t type, std::int32_t id) {
  switch (type) {
    case kDLCPU:
    case kDLCUDAHost:  // pinned, but plain memory to the CPU
      return Device::cpu();
    case kDLCUDA:
    case kDLCUDAManaged:
      if (id < 0) throw_type_error(fmt::format("DLPack tensor is on CUDA device {}", id));
      return Device::cuda(id);
    default:
      throw_type_error(
          fmt::format("DLPack tensor is on a device of type {}; Kiln takes the CPU (1), CUDA (2), CUDA "
                      "pinned (3) and CUDA managed (13) memory",
                      type));
  }
}

Tensor from_dlpack(DLManagedTensor* managed) {
  if (managed == nullptr) throw_value_error("the DLPack tensor is null");
  // Everything that can be refused comes before ownership moves.
  const TensorView view = import_view(managed->dl_tensor);
  return Tensor(view, std::shared_ptr<void>(managed, [](void* owned) {
                  auto* tensor = static_cast<DLManagedTensor*>(owned);
                  if (tensor->deleter != nullptr) tensor->deleter(tensor);
                }));
}

DLManagedTensor* to_dlpack(const Tensor& tensor) {
  return &(new Export(tensor))->managed;
}

}  // namespace kiln
