#pragma once

#include "compiler/tl/affine.hpp"
#include "compiler/tl/number.hpp"
#include "compiler/tl/shape.hpp"

#if defined(KILN_TARGET_CUDA)
#include "compiler/tl/cuda/layout.hpp"
#else
#include "compiler/tl/cpu/layout.hpp"
#endif

namespace kiln::tl {

template <Number T, typename ShapeT, typename LayoutT = DefaultLayout<ShapeT>>
struct Tile;

template <typename TileT, typename T, typename ShapeT>
inline constexpr bool is_tile_of = false;
template <typename T, typename S, typename L>
inline constexpr bool is_tile_of<Tile<T, S, L>, T, S> = true;

/// A value with a static shape, spread over the program's threads as LayoutT says. On the CPU there is one thread,
/// which holds all elements.
///
/// A layout answers for register r of the calling thread: row(r), column(r), and owns(r): whether this copy of the
/// element is the one that counts.
template <Number T, typename ShapeT, typename LayoutT>
struct Tile {
  using value_type = T;
  using shape = ShapeT;
  using layout = LayoutT;
  static constexpr int kRegisters = LayoutT::kRegisters;

  T registers[kRegisters];

  /// A tile that lies otherwise changes its layout where it is assigned: on the GPU by way of shared memory.
  template <typename OtherTile>
    requires(is_tile_of<OtherTile, T, ShapeT>)
  KILN_DEVICE Tile& operator=(const OtherTile& other) {
    return *this = broadcast_to_shape<ShapeT, LayoutT>(to_values(other));
  }
};

template <typename T>
inline constexpr bool is_tile = false;
template <typename T, typename S, typename L>
inline constexpr bool is_tile<Tile<T, S, L>> = true;
template <typename T>
concept ValueTile = is_tile<T>;

template <Number T, typename ShapeT>
KILN_DEVICE Tile<T, ShapeT> full_of(T value) {
  Tile<T, ShapeT> result;
  KILN_UNROLL for (int r = 0; r < result.kRegisters; ++r) result.registers[r] = value;
  return result;
}

/// A tile of kExtents... elements, each `value`.
template <Number T, int... kExtents>
KILN_DEVICE Tile<T, Shape<kExtents...>> full(T value) {
  return full_of<T, Shape<kExtents...>>(value);
}
template <Number T, int... kExtents>
KILN_DEVICE Tile<T, Shape<kExtents...>> zeros() {
  return full_of<T, Shape<kExtents...>>(T{});
}

}  // namespace kiln::tl
