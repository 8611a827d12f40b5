#pragma once

#include <cstdint>
#include <span>

#include "ops/op_spec.hpp"

namespace kiln::normalization {

/// A call of layer_norm or rms_norm, taken apart.
struct NormCall {
  const TensorView* weight = nullptr;    ///< null where the call has none, as the others
  const TensorView* bias = nullptr;      ///< layer_norm's
  const TensorView* residual = nullptr;  ///< rms_norm's
  int first_axis = 0;                    ///< axes from here on are normalized
  double eps = 0;

  bool is_normalized(int axis) const { return axis >= first_axis; }
};

/// UsageError: value for a normalized_shape that is not the end of x's shape, for a weight, bias or residual of another
/// shape and for a negative eps; type for their dtypes.
NormCall norm_call(bool is_layer, const CallInputs& inputs, const Attributes& attributes);

}  // namespace kiln::normalization
