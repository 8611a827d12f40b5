#pragma once

// Included by the kernel, whose template argument this is, and by the host that names its values, so it includes
// nothing and uses only built-in types.

namespace kiln::ops {

/// The tiles that a head is taken as, whose extents are powers of two, and those of products 16 or more: the largest
/// below its size and what holds the rest, where these are less than one that holds all of it.
struct HeadParts {
  int first, second;  ///< numbers of a tile; no second one: 0

  constexpr int count() const { return second == 0 ? 1 : 2; }
  constexpr int numbers() const { return first + second; }
  constexpr int least() const { return second == 0 ? first : second; }  ///< numbers of the smaller tile
};

/// Numbers that a head's tiles have, each of them, where scores are products of 8 bits.
inline constexpr int kLeastByteDim = 32;

/// The extent of the tile that holds `dim` numbers.
constexpr int padded_extent(int dim) {
  int extent = 16;
  while (extent < dim) extent *= 2;
  return extent;
}

constexpr HeadParts parts_of_head(int dim) {
  const int whole = padded_extent(dim), first = whole / 2;
  if (whole == 16) return {whole, 0};
  const int second = padded_extent(dim - first);
  return first + second < whole ? HeadParts{first, second} : HeadParts{whole, 0};
}

/// What a call of attention has of all there is. What it does not have costs its kernel nothing.
struct AttentionForm {
  int head_dim, value_dim;  ///< of q and k, and of v and out; 1 to 256
  bool is_dense;            ///< the numbers of a head lie side by side, in all four
  bool has_low, has_high;   ///< a query sees no keys before, or behind, places that move along with it
  bool checks_keys;         ///< the last of these may lie behind the last key, or there is none
  bool scales_first;        ///< scores are scaled before their largest is taken: something is added to them, or they
                            ///< are capped, or the scale turns them around
  bool caps;                ///< by a hyperbolic tangent
  bool has_mask;
  bool has_dense_mask;  ///< along the keys
  bool has_slopes, has_sinks;
  bool has_query_scale, has_key_scale,
      has_value_scale;  ///< numbers of 8 bits stand for themselves times a head's scale
  bool returns_lse;

  /// Of heads that are taken as one tile.
  constexpr int padded_head_dim() const { return padded_extent(head_dim); }
  constexpr int padded_value_dim() const { return padded_extent(value_dim); }
};

}  // namespace kiln::ops
