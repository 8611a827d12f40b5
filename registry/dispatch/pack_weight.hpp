#pragma once

#include <optional>

#include "core/tensor.hpp"
#include "runtime/stream.hpp"

namespace kiln {

/// A weight (out, in) for linear and linear_relu as their kernels for sm_90a read it without a copy in each call: its
/// own rows, of the same shape, at multiples of 128 bytes of new memory. The weight itself, sharing its memory, where
/// it lies well already, and on the CPU. To be done once, ahead: worth it where `in`, or `out` of a weight stored as
/// (in, out), makes rows that are no multiple of 16 bytes; fp8 and i8 products with weights stored as (in, out) gain up
/// to a tenth. On `stream`; unset: the device's default one. UsageError(value) for another number of dimensions than 2.
Tensor pack_weight(const Tensor& weight, std::optional<Stream> stream = {});

}  // namespace kiln
