#pragma once

#include <string>
#include <vector>

#include "ops/op_spec.hpp"

namespace kiln {

/// Registers a user op whose kernel reads and writes dense tensors elementwise over a 1-D grid, from a source string:
///   template <typename T, int BLOCK_SIZE> KILN_KERNEL void NAME(const T* in0, ..., T* out, int64_t n)
/// All inputs share one dtype and shape, which the single output takes too. For anything else fill in an OpSpec.
struct ElementwiseKernel {
  std::string name;
  std::string doc;
  KernelSource source;
  std::string kernel;  ///< qualified template name
  int num_inputs = 1;
  std::vector<DType> dtypes{DType::f32};
};
void register_elementwise_kernel(const ElementwiseKernel& kernel);
/// Reads a kernel file, and as its headers the files that it includes with quotes and that lie beside it, theirs too.
/// UsageError(value) when it cannot be read.
KernelSource read_kernel_source(const std::string& path);

}  // namespace kiln
