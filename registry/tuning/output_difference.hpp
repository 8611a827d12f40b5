#pragma once

#include <string>

#include "core/tensor.hpp"
#include "ops/op_spec.hpp"
#include "runtime/stream.hpp"

namespace kiln {

/// Whether two configs of an op agree: empty, or one line that says how many elements of `got` are not `wanted`'s
/// within twice the op's tolerance, for each of the two may be off by it. The absolute part is at least as wide as the
/// relative part of the largest element, since configs add up in other orders. Integers must be equal, NaN is equal to
/// NaN. Compared where the tensors are, by Kiln's own ops; dense tensors of one shape, dtype and device.
std::string output_difference(const Tensor& wanted, const Tensor& got, Tolerance tolerance, Stream stream);

}  // namespace kiln
