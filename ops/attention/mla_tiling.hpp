#pragma once

#include <cstdint>

#include "core/config.hpp"
#include "core/target.hpp"
#include "ops/attention/mla_call.hpp"

namespace kiln::attention {

/// Of these configs each fits a program of any call of f32, or of 16 bits.
ConfigSpace mla_space(bool is_float, const Target& target);
Config default_mla_tiling(const MlaCall& call, const Target& target);

/// Parts that each request's keys are taken in, as num_splits of shapes (split_parts.hpp).
std::int64_t mla_splits(const MlaCall& call, const Config& config, const Target& target);

}  // namespace kiln::attention
