#pragma once

#include <cstdint>
#include <string>

#include "core/config.hpp"
#include "core/target.hpp"
#include "ops/attention/call.hpp"

namespace kiln::attention {

/// Calls whose programs take the same tiles.
struct HeadKind {
  std::int64_t most_dim;  ///< of a head, as a tile: 64, 128 or 256
  bool is_float;          ///< of f32; else of 16 bits

  std::string name() const;
  bool serves(const AttentionCall& call) const;
};

/// Of these configs each fits a program of any call of the kind.
ConfigSpace attention_space(const HeadKind& kind, const Target& target);
Config default_tiling(const HeadKind& kind, const AttentionCall& call, const Target& target);

}  // namespace kiln::attention
