#pragma once

#include <cstdint>
#include <string>

#include "core/dtype.hpp"
#include "ops/attention/kernel_form.hpp"

namespace kiln::attention {

/// Calls whose programs take the same tiles.
struct HeadKind {
  std::int64_t most_dim;   ///< of a head, as one tile: 64, 128 or 256
  bool is_float;           ///< of products of f32; else of 16 bits
  bool has_bytes = false;  ///< keys and values have 8 bits

  std::string name() const;
  std::string doc() const;
  /// `query` and `key` are the types of q and of k and v.
  bool serves(const ops::AttentionForm& form, DType query, DType key) const;
};

inline constexpr HeadKind kHeadKinds[] = {{64, false},        {128, false},     {256, false},      {64, true},
                                          {128, true},        {256, true},      {64, false, true}, {128, false, true},
                                          {256, false, true}, {64, true, true}, {128, true, true}, {256, true, true}};

}  // namespace kiln::attention
