#pragma once

#include <cstdint>
#include <string>

#include "core/dtype.hpp"
#include "ops/attention/kernel_form.hpp"

namespace kiln::attention {

/// Calls whose programs take the same tiles.
struct HeadKind {
  std::int64_t most_dim;  ///< of a head, as one tile: 64, 128 or 256
  bool is_float;          ///< of f32; else of 16 bits

  std::string name() const;
  bool serves(const ops::AttentionForm& form, DType dtype) const;
};

inline constexpr HeadKind kHeadKinds[] = {{64, false}, {128, false}, {256, false},
                                          {64, true},  {128, true},  {256, true}};

}  // namespace kiln::attention
