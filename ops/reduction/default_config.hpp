#pragma once

#include <cstddef>
#include <cstdint>

#include "core/config.hpp"
#include "core/target.hpp"
#include "ops/reduction/collapse.hpp"

namespace kiln::reduction {

/// Elements of a CPU's smallest tile.
inline constexpr std::int64_t kLeastCpuTile = 16;

/// The tunables: BLOCK_M x BLOCK_N is a tile, UNROLL tiles are loaded at a time, PROGRAMS is how many a reduction that
/// is split aims at, FOLD whether rows of a matrix may be taken as one (fold_of), SPAN how many tiles of a row a
/// program of a CPU walks down side by side (span_of).
ConfigSpace config_space(const Target& target);
/// The defaults for an input of `itemsize` bytes and states of `state_parts` numbers of `accumulator_bytes`.
Config cuda_config(const CollapsedReduction& collapsed, std::int64_t itemsize, std::size_t state_parts,
                   bool finds_index);
Config cpu_config(const CollapsedReduction& collapsed, std::int64_t itemsize, std::int64_t accumulator_bytes,
                  std::size_t state_parts, const Target& target);

}  // namespace kiln::reduction
