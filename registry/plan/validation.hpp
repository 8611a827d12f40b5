#pragma once

#include <span>

#include "ops/op_spec.hpp"

namespace kiln {

/// Arity, ranks, extents and dtypes of the inputs. UsageError: value, or not_implemented for a dtype the op has no
/// kernel for.
void check_inputs(const OpSpec& spec, const CallInputs& inputs);

/// UsageError(type) for an input that a caller said is left out, and that the op needs.
void check_left_out(const OpSpec& spec, const LeftOut& left_out);

/// UsageError(type), naming both tensors, when the inputs and the given outputs do not live on one device. In a call on
/// a GPU, inputs that may lie in pinned host memory may be on the CPU.
void check_one_device(const OpSpec& spec, const CallInputs& inputs, std::span<const TensorView> outputs);

/// The given attributes checked against the spec, defaults filled in; an integer or boolean given for a number
/// converts. UsageError: value for an unknown (naming the nearest) or missing attribute, type for one of the wrong
/// type.
Attributes complete_attributes(const OpSpec& spec, const Attributes& given);

/// Given outputs against what the op makes. UsageError: value for count, shape or a layout that overlaps itself, type
/// for dtype.
void check_outputs(const OpSpec& spec, std::span<const TensorView> outputs, std::span<const TensorMeta> expected);

}  // namespace kiln
