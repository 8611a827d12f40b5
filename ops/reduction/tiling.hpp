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

/// Tiles of a row that a program of a CPU walks down side by side, as far as a config's are of one row and there is as
/// much as one tile to keep; 1: a program of one tile.
std::int64_t span_of(const CollapsedReduction& collapsed, const Config& config);
/// Kept elements of a program.
std::int64_t kept_block_of(const CollapsedReduction& collapsed, const Config& config);

/// How many chunks along the two levels of the reduced dimensions: pieces of the tiled one, groups of outer indices.
struct Split {
  std::int64_t pieces = 1, piece_extent = 1;
  std::int64_t groups = 1, outer_per_group = 1;
};
/// Whether a second kernel would take longer than what one program of a GPU has to reduce: such a call is not split.
bool is_short(const CollapsedReduction& collapsed, const Config& config);
/// Whether a search for a place is better spread out (spread_out), which takes a second kernel.
bool gains_by_spreading(const CollapsedReduction& in_order);
/// Depends on shapes and config alone: the same call has the same chunks on every machine, and so the same bits.
Split split_of(const CollapsedReduction& collapsed, const Config& config, std::int64_t itemsize, const Target& target);

/// How many rows of a dense matrix of kept columns to take as one, so that they are aligned and fill blocks of
/// `block_n`; 1 where rows are no dense matrix, or as good as they are, or too few. Of outer kept dimensions each is
/// such a matrix.
std::int64_t fold_of(const CollapsedReduction& collapsed, std::int64_t block_n, std::int64_t itemsize);
/// With `fold` rows taken as one, the last of which may be cut short (ops::ReductionIteration).
CollapsedReduction folded_by(const CollapsedReduction& collapsed, std::int64_t fold);

/// Blocks of kept elements, each one or more programs.
std::int64_t kept_programs(const CollapsedReduction& collapsed, std::int64_t kept_block);

/// Whether tiles can be read 16 bytes at a time, given an aligned first element: all their rows must then start
/// aligned. A program of one row finds the boundary in it. Otherwise neighbouring threads read neighbouring elements.
bool moves_packets(const CollapsedReduction& collapsed, std::int64_t block_m, std::int64_t itemsize);

}  // namespace kiln::reduction
