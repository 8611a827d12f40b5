#pragma once

#include <span>
#include <vector>

#include "ops/elementwise/op_table.hpp"

namespace kiln::elementwise {

/// The dtypes of one call.
struct ElementwiseTypes {
  DType promoted;  ///< torch.result_type of the tensors and of the scalars that promote
  DType compute;   ///< what the kernel casts inputs to (a where's condition apart)
  DType out;
};

/// Dtypes an input of the op may have.
std::vector<DType> supported_dtypes(const OpRow& row);

/// UsageError naming the op, the inputs and both dtypes for a combination the op does not have, and for attributes that
/// are not numbers, or that an integer op cannot use. Attributes have their defaults filled in.
ElementwiseTypes resolve_types(const OpRow& row, std::span<const TensorView> inputs, const Attributes& attributes);

/// Scalar attributes in both forms, each as the compute dtype holds it: what the kernel's cast gives is then exact.
ops::Scalars make_scalars(const OpRow& row, const Attributes& attributes, const ElementwiseTypes& types);

}  // namespace kiln::elementwise
