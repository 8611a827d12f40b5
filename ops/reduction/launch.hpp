#pragma once

#include <vector>

#include "ops/op_spec.hpp"
#include "ops/reduction/reduction.hpp"

namespace kiln::reduction {

/// The family's kernels for one op. `row` must outlive them; `source` is the family's kernel file.
std::vector<Variant> reduction_variants(const OpRow& row, const KernelSource& source);

}  // namespace kiln::reduction
