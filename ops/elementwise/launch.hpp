#pragma once

#include <vector>

#include "ops/elementwise/call.hpp"

namespace kiln::elementwise {

/// The family's three kernels, for one op: contiguous, indexed, strided (which serves every call).
/// `source` is the family's kernel file.
std::vector<Variant> elementwise_variants(const ElementwiseParser& parse, const KernelSource& source);

}  // namespace kiln::elementwise
