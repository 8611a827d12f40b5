#pragma once

#include <cstdint>
#include <string_view>

#include "core/attributes.hpp"
#include "ops/rope/iteration.hpp"

namespace kiln::rope {

/// How fast pairs turn. Pair i of `pairs` turns by base^(-i / pairs) radians in one position ("none"); that divided by
/// `factor` ("linear"); or that where it turns high_freq_factor times or more within original_max_position, divided by
/// `factor` where it turns low_freq_factor times or less, and between these a blend that is linear in how often it
/// turns
/// ("llama3": Llama 3.1's, as _compute_llama3_parameters of transformers' modeling_rope_utils.py and FlashInfer's
/// apply_llama31_rope have it).
struct Frequencies {
  double base = 0;
  std::int64_t pairs = 0;
  double factor = 1;
  bool blends = false;  ///< llama3
  double low = 0, high = 0;
  double original_positions = 0;

  /// Turns, not radians, of pair `pair` in one position.
  long double turns(std::int64_t pair) const;
  /// The same for the kernel.
  ops::RopeTurns fractions() const;
};

/// Attributes base, scaling, factor, low_freq_factor, high_freq_factor and original_max_position. UsageError(value) for
/// numbers out of range, and for a factor that `scaling` does not use.
Frequencies frequencies(std::string_view op, const Attributes& attributes, std::int64_t pairs);

}  // namespace kiln::rope
