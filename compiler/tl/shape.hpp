#pragma once

#include "compiler/tl/traits.hpp"

namespace kiln::tl {

constexpr bool is_power_of_two(int n) {
  return n > 0 && (n & (n - 1)) == 0;
}

/// Of a tile. Only what goes to the tensor cores of sm_90a, as an operand or as sums, and what is symbolic has extents
/// that are no powers of two.
constexpr bool is_extent(int n) {
  return is_power_of_two(n) || (n > 0 && n % 16 == 0);
}

/// A tile's static shape: Shape<N> or Shape<M, N>. A one-dimensional shape is one row.
template <int... kExtents>
struct Shape;

template <int kN>
struct Shape<kN> {
  static_assert(is_extent(kN), "a tile's extents are powers of two, as in Triton, or multiples of 16");
  static constexpr int kRank = 1, kRows = 1, kColumns = kN, kNumel = kN;
};

template <int kM, int kN>
struct Shape<kM, kN> {
  static_assert(is_extent(kM) && is_extent(kN), "a tile's extents are powers of two, as in Triton, or multiples of 16");
  static constexpr int kRank = 2, kRows = kM, kColumns = kN, kNumel = kM * kN;
};

/// Whether tiles that are neither may have the shape; on both targets, so that a kernel of the CPU is one of GPUs.
template <typename ShapeT>
inline constexpr bool kIsPlainShape = is_power_of_two(ShapeT::kNumel);
#define KILN_PLAIN_SHAPE \
  "extents that are no powers of two are those of products' operands and sums; this tile is neither"

constexpr bool extents_broadcast(int a, int b) {
  return a == b || a == 1 || b == 1;
}
/// A name for it, so that a compiler that finds it false names both shapes.
template <typename A, typename B>
inline constexpr bool kShapesBroadcast =
    extents_broadcast(A::kRows, B::kRows) && extents_broadcast(A::kColumns, B::kColumns);
template <typename A, typename B>
inline constexpr bool kRanksMeet = A::kRank == B::kRank;

template <typename A, typename B>
struct BroadcastShape {
  static constexpr int kRows = A::kRows > B::kRows ? A::kRows : B::kRows;
  static constexpr int kColumns = A::kColumns > B::kColumns ? A::kColumns : B::kColumns;
  static_assert(kRanksMeet<A, B>, "tiles of one and two dimensions meet: apply expand_dims first");
  static_assert(!kRanksMeet<A, B> || kShapesBroadcast<A, B>,
                "these tile shapes do not broadcast: of two extents, both are equal or one is 1");
  using type = conditional_t<A::kRank == 1, Shape<kColumns>, Shape<kRows, kColumns>>;
};
template <typename A, typename B>
using broadcast_shape_t = typename BroadcastShape<A, B>::type;

/// Shape<N> with a unit axis put in at `kAxis`.
template <typename ShapeT, int kAxis>
struct ExpandShape;
template <int kN>
struct ExpandShape<Shape<kN>, 0> {
  using type = Shape<1, kN>;
};
template <int kN>
struct ExpandShape<Shape<kN>, 1> {
  using type = Shape<kN, 1>;
};
template <typename ShapeT, int kAxis>
using expand_shape_t = typename ExpandShape<ShapeT, kAxis>::type;

}  // namespace kiln::tl
