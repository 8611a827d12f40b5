#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "core/config.hpp"
#include "core/target.hpp"
#include "ops/common/grid.hpp"
#include "ops/reduction/collapse.hpp"

namespace kiln::reduction {

/// Bytes of a GPU's widest access.
inline constexpr std::int64_t kAccessBytes = 16;

/// How many chunks along the two levels of the reduced dimensions: pieces of the tiled one, groups of outer indices.
struct Split {
  std::int64_t pieces = 1, piece_extent = 1;
  std::int64_t groups = 1, outer_per_group = 1;
};
/// Depends on shapes and config alone: the same call has the same chunks on every machine, and so the same bits.
Split split_of(const CollapsedReduction& collapsed, const Config& config, std::int64_t itemsize, const Target& target);

/// Blocks of kept elements, each one or more programs.
std::int64_t kept_programs(const CollapsedReduction& collapsed, std::int64_t kept_block);

/// Whether tiles can be read 16 bytes at a time, given an aligned first element: all their rows must then start
/// aligned. A program of one row finds the boundary in it. Otherwise neighbouring threads read neighbouring elements.
bool moves_packets(const CollapsedReduction& collapsed, std::int64_t block_m, std::int64_t itemsize);

/// The tunables: BLOCK_M x BLOCK_N is a tile, UNROLL tiles are loaded at a time, PROGRAMS is how many a reduction that
/// is split aims at.
ConfigSpace config_space(const Target& target);
/// The defaults for an input of `itemsize` bytes and states of `state_parts` numbers of `accumulator_bytes`.
Config cuda_config(const CollapsedReduction& collapsed, std::int64_t itemsize, std::size_t state_parts);
Config cpu_config(const CollapsedReduction& collapsed, std::int64_t accumulator_bytes, std::size_t state_parts,
                  const Target& target);

}  // namespace kiln::reduction
