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

template <typename T>
inline constexpr bool is_tile = false;
template <typename T, typename S, typename L>
inline constexpr bool is_tile<Tile<T, S, L>> = true;
template <typename T>
concept ValueTile = is_tile<T>;

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
#if defined(KILN_TARGET_CUDA)
  static_assert(kRegisters * sizeof(T) <= 2048,
                "a tile is spread over the registers of the program's threads, and this one has more elements than "
                "they hold twice over: make it smaller, loop over parts of it, or give the program more warps");
#endif

  T registers[kRegisters];

  /// A tile that lies otherwise changes its layout where it is assigned: on the GPU by way of shared memory.
  template <typename Other>
  KILN_DEVICE Tile& operator=(const Other& other) {
    static_assert(is_tile<Other>,
                  "a tile is assigned a tile: full makes one of a number, cast one of what is symbolic");
    if constexpr (is_tile<Other>) {
      using OtherT = typename Other::value_type;
      using OtherShape = typename Other::shape;
      static_assert(is_same<OtherT, T>,
                    "a tile keeps the dtype that it was made with: cast what is assigned to it, or begin with the "
                    "dtype of the results");
      static_assert(is_same<OtherShape, ShapeT>, "a tile keeps the shape that it was made with");
      if constexpr (is_same<OtherT, T> && is_same<OtherShape, ShapeT>)
        return *this = broadcast_to_shape<ShapeT, LayoutT>(to_values(other));
    }
    return *this;
  }
  /// Not: `if`, `while`, `? :` and loops ask a number.
  KILN_DEVICE explicit operator bool() const {
    static_assert(kRegisters < 0,
                  "a tile is no condition, for its elements differ: choose elements by where or a mask, or ask a "
                  "number, as max(tile) is");
    return false;
  }
};

template <Number T, typename ShapeT>
KILN_DEVICE Tile<T, ShapeT> full_of(T value) {
  Tile<T, ShapeT> result;
  KILN_UNROLL for (int r = 0; r < result.kRegisters; ++r) result.registers[r] = value;
  return result;
}

template <Number To, Number From>
KILN_DEVICE To cast(From x);

/// A tile of kExtents... elements, each `value` as a T.
template <Number T, int... kExtents, Number V>
KILN_DEVICE Tile<T, Shape<kExtents...>> full(V value) {
  static_assert(kIsPlainShape<Shape<kExtents...>>, KILN_PLAIN_SHAPE);
  return full_of<T, Shape<kExtents...>>(cast<T>(value));
}
template <Number T, int... kExtents>
KILN_DEVICE Tile<T, Shape<kExtents...>> zeros() {
  static_assert(kIsPlainShape<Shape<kExtents...>>, KILN_PLAIN_SHAPE);
  return full_of<T, Shape<kExtents...>>(T{});
}

}  // namespace kiln::tl
