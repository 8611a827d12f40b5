#pragma once

#include <cstdint>

#include "core/tensor.hpp"

struct DLManagedTensor;

namespace kiln {

/// An element type as DLPack spells it.
struct DlpackType {
  std::uint8_t code;
  std::uint8_t bits;
  std::uint16_t lanes;
};
/// UsageError(type) for a dtype or lane count Kiln does not know.
DType from_dlpack_type(DlpackType type);
DlpackType to_dlpack_type(DType dtype) noexcept;
/// kDLCPU and kDLCUDAHost (pinned) are the CPU, kDLCUDA and kDLCUDAManaged CUDA; UsageError(type) for others.
Device from_dlpack_device(std::int32_t type, std::int32_t id);

/// Takes ownership of `managed` (its deleter runs when the last Tensor goes). Null strides mean row-major; byte_offset
/// is applied; kDLCUDAHost and kDLCUDAManaged map to the CPU and CUDA. UsageError(type) for a dtype, lane count or
/// device Kiln does not know; ownership stays with the caller then.
Tensor from_dlpack(DLManagedTensor* managed);
/// A new DLManagedTensor that keeps `tensor` alive until its deleter runs.
DLManagedTensor* to_dlpack(const Tensor& tensor);

}  // namespace kiln
