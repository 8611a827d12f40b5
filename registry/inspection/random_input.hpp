#pragma once

#include <cstdint>

#include "core/tensor.hpp"
#include "ops/op_spec.hpp"

namespace kiln {

/// Fills a dense CPU tensor with values drawn uniformly from `range`; integers take whole numbers of the range that
/// fit, bool either value. Element i depends on `seed`, `stream` (one per input) and i alone, so the same seed gives
/// the same tensor on every machine.
void fill_random(const TensorView& tensor, InputRange range, std::uint64_t seed, std::uint64_t stream);

}  // namespace kiln
