#pragma once

#include <cstdint>
#include <span>

#include "core/tensor.hpp"
#include "ops/op_spec.hpp"

namespace kiln {

/// Fills a call's inputs on the CPU, of any strides, with random contents that the op can take; Tensor{} is one left
/// out. Input i is drawn from `ranges[i]`, else from the spec's range; then the spec's fill_inputs has its turn. Dense
/// inputs get what `kiln run --seed` gives them. UsageError for a call that the op refuses.
void fill_random_inputs(const OpSpec& spec, std::span<const TensorView> inputs, const Attributes& attributes,
                        std::uint64_t seed, std::span<const InputRange> ranges = {});

}  // namespace kiln
