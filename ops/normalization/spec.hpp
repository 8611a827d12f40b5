#pragma once

#include <vector>

#include "ops/op_spec.hpp"

namespace kiln::normalization {

/// softmax, log_softmax, layer_norm, rms_norm.
std::vector<OpSpec> normalization_specs();

}  // namespace kiln::normalization
