#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/tensor.hpp"
#include "ops/op_spec.hpp"

namespace kiln::cli {

/// The inputs of a call on `device`, laid out as `like` says (shapes, strides, which are in host memory, which are left
/// out), with random contents that the op can take (fill_random_inputs). What addresses among them name is theirs.
/// UsageError for a call that the op refuses.
std::vector<Tensor> random_inputs(const OpSpec& spec, std::span<const std::optional<TensorView>> like,
                                  const Attributes& attributes, Device device, std::uint64_t seed);

/// A copy of a dense tensor of the CPU in memory that is page-locked for `device`, or for the CPU in ordinary memory.
Tensor in_pinned_memory(const Tensor& tensor, Device device);

}  // namespace kiln::cli
