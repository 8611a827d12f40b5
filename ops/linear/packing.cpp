#include "ops/linear/packing.hpp"

#include "core/tensor_map.hpp"
#include "ops/matmul/call_sm90.hpp"

namespace kiln::linear {

bool needs_packing(const TensorView& weight) {
  if (!weight.device.is_cuda() || weight.numel() == 0) return false;
  if (!takes_tensor_map(weight.data)) return true;
  const auto rows =
      matmul::sm90_rows(weight.dtype, weight.shape[0], weight.shape[1], weight.strides[0], weight.strides[1]);
  // Weights of 8 bits that lie along `out` are read as they lie, but up to a tenth faster along `in`.
  return !rows || (rows->is_mn && itemsize_bytes(weight.dtype) == 1);
}

Dims packed_strides(const TensorView& weight) {
  return {matmul::packed_pitch(weight.dtype, weight.shape[1]), 1};
}

}  // namespace kiln::linear
