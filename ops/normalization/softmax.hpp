#pragma once

#include <vector>

#include "ops/op_spec.hpp"

namespace kiln::normalization {

/// softmax and log_softmax. `source` is the family's kernel file.
std::vector<OpSpec> softmax_specs(const KernelSource& source);

}  // namespace kiln::normalization
