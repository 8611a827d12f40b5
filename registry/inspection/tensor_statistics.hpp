#pragma once

#include <cstdint>
#include <string>

#include "core/tensor.hpp"

namespace kiln {

/// What a tensor's elements are like. NaNs and infinities are counted and left out of the rest.
struct TensorStatistics {
  std::int64_t num_elements = 0;
  std::int64_t num_nan = 0;
  std::int64_t num_inf = 0;  ///< of both signs
  long double min = 0;       ///< exact for every dtype, 64-bit integers included; 0 without finite elements
  long double max = 0;
  double mean = 0;
  std::int64_t num_finite() const noexcept { return num_elements - num_nan - num_inf; }
};

/// Of a tensor of any strides on any device; bool counts as 0 and 1. Computed on the CPU, by no kernel of Kiln's: this
/// is for looking at tensors when kernels are suspected. Waits for all work on the tensor's device. DeviceError when it
/// cannot be read.
TensorStatistics tensor_statistics(const TensorView& tensor);

/// "min -3.99 max 4 mean 0.00213, no NaN, no Inf".
std::string to_string(const TensorStatistics& statistics, DType dtype);

}  // namespace kiln
