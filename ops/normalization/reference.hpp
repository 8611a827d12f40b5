#pragma once

#include "ops/normalization/norm_call.hpp"
#include "ops/op_spec.hpp"

namespace kiln::normalization {

/// softmax or log_softmax along `axis`, row by row in double.
void softmax_reference(const OpCall& call, int axis, bool is_log);
/// layer_norm or rms_norm, row by row in double. What overflows the compute dtype does so here too.
void norm_reference(const OpCall& call, const NormCall& norm, bool is_layer);

Tolerance softmax_tolerance(DType out);
Tolerance log_softmax_tolerance(DType out);
Tolerance norm_tolerance(DType out);

}  // namespace kiln::normalization
