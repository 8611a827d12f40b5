#pragma once

#include <cstdint>
#include <string_view>

#include "core/config.hpp"
#include "core/target.hpp"
#include "ops/normalization/row_walk.hpp"

namespace kiln::normalization {

/// A config's tiles. A program holds `tiles` tiles of block_m x block_n at a time, along the reduced dimension; where a
/// row fits it is read once.
struct RowTiling {
  std::int64_t block_m = 1, block_n = 1, tiles = 1;
  std::int64_t split = 1;  ///< programs that share a row which does not fit
  /// Rows that are off the addresses of wide accesses, one to a program, are taken from such an address on.
  bool starts_anywhere = false;
  std::int32_t num_warps = 4;

  std::int64_t block_kept(const RowWalk& walk) const { return walk.axis == 1 ? block_m : block_n; }
  std::int64_t block_reduced(const RowWalk& walk) const { return walk.axis == 1 ? block_n : block_m; }
  ops::RowColumns columns(const RowWalk& walk, const Target& target) const;
  bool is_anywhere(const RowWalk& walk) const;
  /// Places along the reduced dimension that tiles cover: some more than it has elements where rows start anywhere.
  std::int64_t places(const RowWalk& walk) const;
  /// Tiles that cover a row, where that is at most `tiles`; 0 where the row must be looped over.
  std::int64_t tiles_of_a_row(const RowWalk& walk) const;
  std::int64_t programs(const RowWalk& walk) const;  ///< times `split`
};

/// The tunables of ops that walk over rows along `axis` of a tile. `can_split`: the op has a form in which several
/// programs share a row.
ConfigSpace row_space(int axis, const Target& target, bool can_split);

RowTiling tiling_of(const Config& config);

/// What the default depends on beside the walk.
struct RowNeeds {
  std::int64_t element_bytes = 4;  ///< of the widest tensor
  bool is_double = false;          ///< registers hold 8-byte values
  std::int64_t per_thread = 16;    ///< values that a thread holds of rows up to 8192; of longer ones 32
  bool can_split = false;          ///< as above
  bool can_pack = false;           ///< a thread may hold 64 values of 16 bits as they are
  bool has_shared = false;         ///< reads weights, which are not aligned where rows that start anywhere are
};

/// The untuned default.
Config default_tiling(const RowWalk& walk, const RowNeeds& needs, const Target& target);

/// Elements of one access: 16 bytes where rows stay aligned or may start anywhere, else 1, which puts neighbouring
/// threads on neighbouring elements.
std::int32_t vector_width(const RowWalk& walk, const RowTiling& tiling, std::int64_t element_bytes);

}  // namespace kiln::normalization
