#pragma once

#include <cstdint>
#include <string>

#include "core/config.hpp"
#include "core/dtype.hpp"
#include "core/target.hpp"
#include "ops/attention/kernel_form.hpp"

namespace kiln::attention {

/// Calls whose programs take the same tiles.
struct HeadKind {
  std::int64_t most_dim;  ///< of a head, as a tile: 64, 128 or 256
  bool is_float;          ///< of f32; else of 16 bits

  std::string name() const;
  bool serves(const ops::AttentionForm& form, DType dtype) const;
};

inline constexpr HeadKind kHeadKinds[] = {{64, false}, {128, false}, {256, false},
                                          {64, true},  {128, true},  {256, true}};

/// Of these configs each fits a program of any call of the kind.
ConfigSpace attention_space(const HeadKind& kind, const Target& target);
/// For so many queries of a request and keys that they see.
Config default_tiling(const HeadKind& kind, const ops::AttentionForm& form, std::int64_t queries, std::int64_t keys,
                      const Target& target);

}  // namespace kiln::attention
