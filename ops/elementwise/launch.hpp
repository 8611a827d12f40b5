#pragma once

#include <vector>

#include "ops/elementwise/op_table.hpp"

namespace kiln::elementwise {

/// The family's three kernels, for one op: contiguous, indexed, strided (which serves every call).
/// `row` must outlive them; `source` is the family's kernel file.
std::vector<Variant> elementwise_variants(const OpRow& row, const KernelSource& source);

/// The inputs the kernel reads: none of fill's.
std::span<const TensorView> kernel_inputs(const OpRow& row, std::span<const TensorView> inputs);

}  // namespace kiln::elementwise
