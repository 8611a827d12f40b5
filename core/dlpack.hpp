#pragma once

#include "core/tensor.hpp"

struct DLManagedTensor;

namespace kiln {

/// Takes ownership of `managed` (its deleter runs when the last Tensor goes). Null strides mean row-major; byte_offset
/// is applied; kDLCUDAHost and kDLCUDAManaged map to the CPU and CUDA. UsageError(type) for a dtype, lane count or
/// device Kiln does not know; ownership stays with the caller then.
Tensor from_dlpack(DLManagedTensor* managed);
/// A new DLManagedTensor that keeps `tensor` alive until its deleter runs.
DLManagedTensor* to_dlpack(const Tensor& tensor);

}  // namespace kiln
