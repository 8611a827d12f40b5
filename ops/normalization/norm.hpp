#pragma once

#include <vector>

#include "ops/op_spec.hpp"

namespace kiln::normalization {

/// layer_norm and rms_norm. `source` is the family's kernel file.
std::vector<OpSpec> norm_specs(const KernelSource& source);

}  // namespace kiln::normalization
