#pragma once

#include "compiler/tl/arithmetic.hpp"
#include "compiler/tl/mask.hpp"
#include "compiler/tl/separable_arithmetic.hpp"

#if defined(KILN_TARGET_CUDA)
#include "compiler/tl/cuda/arranged_access.hpp"
#include "compiler/tl/cuda/separable_access.hpp"
#else
#include "compiler/tl/cpu/access.hpp"
#include "compiler/tl/cpu/separable_access.hpp"
#endif

namespace kiln::tl {

/// A tile of addresses data + offsets with computed offsets, element by element.
template <typename T, ValueTile OffsetsT>
struct ScatteredPointerTile {
  using value_type = T;
  using shape = typename OffsetsT::shape;
  T* data;
  OffsetsT offsets;
};

template <typename T, Integer I, typename S, typename L>
KILN_DEVICE ScatteredPointerTile<T, Tile<I, S, L>> operator+(T* data, const Tile<I, S, L>& offsets) {
  return {data, offsets};
}

/// Offsets added to addresses are added to theirs.
template <typename T, SeparableTile A, typename B>
  requires(Integer<B> || SymbolicIndex<B> || ValueTile<B>)
KILN_DEVICE auto operator+(const PointerTile<T, A>& pointers, const B& offsets) {
  return pointers.data + (pointers.offsets + offsets);
}
template <typename T, AffineTile A, typename B>
  requires(SeparableTile<B> || ValueTile<B>)
KILN_DEVICE auto operator+(const PointerTile<T, A>& pointers, const B& offsets) {
  return pointers.data + (pointers.offsets + offsets);
}
template <typename T, ValueTile A, typename B>
  requires(SymbolicIndex<B> || ValueTile<B>)
KILN_DEVICE auto operator+(const ScatteredPointerTile<T, A>& pointers, const B& offsets) {
  if constexpr (is_axis_tile<A> && is_axis_tile<B>)  // of addresses, numbers of rows and of columns stay apart
    return pointers.data + (as_separable(pointers.offsets) + as_separable(offsets));
  else
    return pointers.data + (pointers.offsets + offsets);
}

/// A number goes to the address, so that offsets of 32 bits do not wrap.
template <typename T, ValueTile A, Integer I>
KILN_DEVICE ScatteredPointerTile<T, A> operator+(const ScatteredPointerTile<T, A>& pointers, I offset) {
  return {pointers.data + offset, pointers.offsets};
}

template <typename T>
inline constexpr bool is_pointer_tile = false;
template <typename T, typename A>
inline constexpr bool is_pointer_tile<PointerTile<T, A>> = true;
template <typename T, typename A>
inline constexpr bool is_pointer_tile<ScatteredPointerTile<T, A>> = true;
template <typename T>
concept AddressTile = is_pointer_tile<T>;

template <AddressTile P, Integer I>
KILN_DEVICE auto operator-(const P& pointers, I offset) {
  return pointers + -static_cast<int64_t>(offset);
}

template <typename P>
using pointee_t = remove_const_t<typename P::value_type>;

/// The mask in the form that accesses of shape ShapeT ask.
template <typename ShapeT, typename M>
KILN_DEVICE auto mask_for(const M& mask) {
  if constexpr (is_same<M, bool>)
    return UniformMask<ShapeT>{mask};
  else if constexpr (is_same<M, DirectAccess>)
    return DirectMask<ShapeT>{};
  else if constexpr (ValueTile<M>)
    return TileMask<ShapeT>{broadcast_to_shape<ShapeT>(cast<bool>(mask))};
  else
    return mask;
}

template <AddressTile P, typename M>
struct AccessShape {
  using type = broadcast_shape_t<typename P::shape, typename M::shape>;
};
template <AddressTile P, typename M>
  requires(is_same<M, bool> || is_same<M, DirectAccess>)
struct AccessShape<P, M> {
  using type = typename P::shape;
};

/// The elements at `pointers`; `other` where the mask is false, which is then not read. Any alignment and stride is
/// right; 16-byte accesses are used where the columns are contiguous and the address allows.
template <AddressTile P, typename M, Number O>
KILN_DEVICE auto load(const P& pointers, const M& mask, O other) {
  using T = pointee_t<P>;
  using S = typename AccessShape<P, M>::type;
  static_assert(kIsPlainShape<S>, KILN_PLAIN_SHAPE);
  if constexpr (AffineTile<decltype(pointers.offsets)>)
    return load_affine<T, S>(pointers.data, pointers.offsets, mask_for<S>(mask), cast<T>(other));
  else if constexpr (SeparableTile<decltype(pointers.offsets)>)
    return load_separable<T, S>(pointers.data, pointers.offsets, mask_for<S>(mask), cast<T>(other));
  else
    return load_scattered<T, S>(pointers.data, broadcast_to_shape<S>(pointers.offsets), mask_for<S>(mask),
                                cast<T>(other));
}
/// As above; 0 where the mask is false (Triton leaves it undefined).
template <AddressTile P, typename M>
KILN_DEVICE auto load(const P& pointers, const M& mask) {
  return load(pointers, mask, pointee_t<P>{});
}
template <AddressTile P>
KILN_DEVICE auto load(const P& pointers) {
  return load(pointers, true, pointee_t<P>{});
}
/// Elements of a tile where the mask is false: Triton's other=tile.
template <AddressTile P, typename M, AnyTile O>
KILN_DEVICE auto load(const P& pointers, const M& mask, const O& other) {
  using S = typename AccessShape<P, M>::type;
  static_assert(is_same<broadcast_shape_t<typename O::shape, S>, S>,
                "load: the other tile broadcasts to the shape of the addresses and the mask");
  return where(mask, load(pointers, mask), cast<pointee_t<P>>(other));
}
/// One number, the same in every thread.
template <Number T>
KILN_DEVICE T load(const T* pointer) {
  return *pointer;
}
/// As above where the condition holds; else nothing is read.
template <Number T, Number O = T>
KILN_DEVICE T load(const T* pointer, bool condition, O other = O{}) {
  return condition ? *pointer : cast<T>(other);
}

/// Writes `value` (a tile that broadcasts to the pointers' shape, or a number), cast to the element type, where the
/// mask is true.
template <AddressTile P, Operand V, typename M>
KILN_DEVICE void store(const P& pointers, const V& value, const M& mask) {
  using T = typename P::value_type;
  using S = typename AccessShape<P, M>::type;
  if constexpr (Number<V>) {
    store(pointers, full_of<T, S>(cast<T>(value)), mask);
  } else {
    const auto values = cast<T>(to_values(value));
    using VT = remove_cvref_t<decltype(values)>;
    if constexpr (AffineTile<decltype(pointers.offsets)>) {
      if constexpr (is_same<typename VT::shape, S> && !ValueTile<M>)
        store_affine<T, S>(pointers.data, pointers.offsets, values, mask_for<S>(mask));  // in the layout it has
      else
        store_affine<T, S>(pointers.data, pointers.offsets, broadcast_to_shape<S>(values), mask_for<S>(mask));
    } else if constexpr (SeparableTile<decltype(pointers.offsets)>) {
      store_separable<T, S>(pointers.data, pointers.offsets, broadcast_to_shape<S>(values), mask_for<S>(mask));
    } else {
      store_scattered<T, S>(pointers.data, broadcast_to_shape<S>(pointers.offsets), broadcast_to_shape<S>(values),
                            mask_for<S>(mask));
    }
  }
}
template <AddressTile P, Operand V>
KILN_DEVICE void store(const P& pointers, const V& value) {
  store(pointers, value, true);
}
/// As store(), for output that is not read again soon and is larger than the caches: on the CPU whole aligned cache
/// lines go past them, which saves reading the lines first; the GPU has no such need. Where `wanted` is false it is
/// store(): a line that the program has just read is better written where it is.
template <AddressTile P, Operand V, typename M>
KILN_DEVICE void store_streaming(const P& pointers, const V& value, const M& mask, [[maybe_unused]] bool wanted) {
#if defined(KILN_TARGET_CPU)
  using T = typename P::value_type;
  using S = typename AccessShape<P, M>::type;
  if constexpr (Number<V>) {
    store_streaming(pointers, full_of<T, S>(cast<T>(value)), mask, wanted);
  } else if constexpr (AffineTile<decltype(pointers.offsets)> && !ValueTile<M>) {
    store_affine_streaming<T, S>(pointers.data, pointers.offsets, broadcast_to_shape<S>(cast<T>(to_values(value))),
                                 mask_for<S>(mask), wanted);
  } else {
    store(pointers, value, mask);
  }
#else
  store(pointers, value, mask);
#endif
}
/// One number, written once.
template <Number T, Number V>
KILN_DEVICE void store(T* pointer, V value) {
  store_number(pointer, cast<T>(value));
}
template <Number T, Number V>
KILN_DEVICE void store(T* pointer, V value, bool condition) {
  if (condition) store(pointer, value);
}

// What store does not take, in words.
template <AddressTile P, Operand V, typename M>
  requires(!is_same<typename P::value_type, pointee_t<P>>)
KILN_DEVICE void store(const P&, const V&, const M&) {
  static_assert(!AddressTile<P>, "store: the pointer is to const; one that is written through is T*, not const T*");
}
template <Number T, typename V, typename... M>
KILN_DEVICE void store(const T*, const V&, const M&...) {
  static_assert(!Number<T>, "store: the pointer is to const; one that is written through is T*, not const T*");
}
template <Number T, AnyTile V, typename... M>
KILN_DEVICE void store(T*, const V&, const M&...) {
  static_assert(!Number<T>,
                "store: a plain pointer takes one number; a tile takes a pointer plus indices (out + arange)");
}

}  // namespace kiln::tl
