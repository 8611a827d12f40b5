#pragma once

#include "compiler/tl/tile.hpp"

namespace kiln::tl {

/// Up to eight things that travel together: `Tuple{values, indices}`, `auto [value, index] = ...`, `pair.first`.
template <typename... T>
struct Tuple;
template <typename A>
struct Tuple<A> {
  A first;
};
template <typename A, typename B>
struct Tuple<A, B> {
  A first;
  B second;
};
template <typename A, typename B, typename C>
struct Tuple<A, B, C> {
  A first;
  B second;
  C third;
};
template <typename A, typename B, typename C, typename D>
struct Tuple<A, B, C, D> {
  A first;
  B second;
  C third;
  D fourth;
};
template <typename A, typename B, typename C, typename D, typename E>
struct Tuple<A, B, C, D, E> {
  A first;
  B second;
  C third;
  D fourth;
  E fifth;
};
template <typename A, typename B, typename C, typename D, typename E, typename F>
struct Tuple<A, B, C, D, E, F> {
  A first;
  B second;
  C third;
  D fourth;
  E fifth;
  F sixth;
};
template <typename A, typename B, typename C, typename D, typename E, typename F, typename G>
struct Tuple<A, B, C, D, E, F, G> {
  A first;
  B second;
  C third;
  D fourth;
  E fifth;
  F sixth;
  G seventh;
};
template <typename A, typename B, typename C, typename D, typename E, typename F, typename G, typename H>
struct Tuple<A, B, C, D, E, F, G, H> {
  A first;
  B second;
  C third;
  D fourth;
  E fifth;
  F sixth;
  G seventh;
  H eighth;
};
template <typename... T>
Tuple(T...) -> Tuple<T...>;

/// Parts of a Tuple; 0 for anything else.
template <typename T>
inline constexpr int kParts = 0;
template <typename... T>
inline constexpr int kParts<Tuple<T...>> = sizeof...(T);

/// Part kPart of a Tuple; the thing itself where x is none.
template <int kPart, typename T>
KILN_DEVICE constexpr auto& part_of(T& x) {
  static_assert(kPart < 8, "Tuple: up to eight parts");
  if constexpr (kParts<remove_cvref_t<T>> == 0)
    return x;
  else if constexpr (kPart == 0)
    return x.first;
  else if constexpr (kPart == 1)
    return x.second;
  else if constexpr (kPart == 2)
    return x.third;
  else if constexpr (kPart == 3)
    return x.fourth;
  else if constexpr (kPart == 4)
    return x.fifth;
  else if constexpr (kPart == 5)
    return x.sixth;
  else if constexpr (kPart == 6)
    return x.seventh;
  else
    return x.eighth;
}

template <int kPart, typename F, typename X, typename... Others>
KILN_DEVICE constexpr auto map_part(F& f, X& x, Others&... others) {
  return f(part_of<kPart>(x), part_of<kPart>(others)...);
}
template <int... kPart, typename F, typename X, typename... Others>
KILN_DEVICE constexpr auto map_parts(Sequence<kPart...>, F& f, X& x, Others&... others) {
  return Tuple{map_part<kPart>(f, x, others...)...};
}
/// The Tuple of f(part, others...) for each part of x and the parts of `others` beside it; f(x, others...) where x is
/// no Tuple. What works on tiles or numbers is written once for one of them and for several.
template <typename F, typename X, typename... Others>
KILN_DEVICE constexpr auto map_parts(F f, X&& x, Others&&... others) {
  constexpr int kCount = kParts<remove_cvref_t<X>>;
  if constexpr (kCount == 0)
    return f(x, others...);
  else
    return map_parts(make_sequence<kCount>(), f, x, others...);
}

/// f of the parts of x from kFirst on, as many as the sequence has.
template <int kFirst, typename F, typename X, int... kPart>
KILN_DEVICE constexpr decltype(auto) call_with_parts(F& f, const X& x, Sequence<kPart...>) {
  return f(part_of<kFirst + kPart>(x)...);
}

template <typename X, typename Y, int... kOfX, int... kOfY>
KILN_DEVICE constexpr auto joined(const X& x, const Y& y, Sequence<kOfX...>, Sequence<kOfY...>) {
  return Tuple{part_of<kOfX>(x)..., part_of<kOfY>(y)...};
}
/// The Tuple of x, or of its parts, and behind them of y or its parts: eight at most.
template <typename X, typename Y>
KILN_DEVICE constexpr auto joined(const X& x, const Y& y) {
  return joined(x, y, make_sequence<kParts<X> == 0 ? 1 : kParts<X>>(), make_sequence<kParts<Y> == 0 ? 1 : kParts<Y>>());
}

template <typename Tiles>
using shape_of_t = typename remove_cvref_t<decltype(part_of<0>(*static_cast<const Tiles*>(nullptr)))>::shape;

// One tile is by far the most frequent, and what is done to every register counts in compile time: it has a shorter way
// than map_parts.

/// Register r of one tile, or of each of several.
template <typename Tiles>
KILN_DEVICE auto element_of(const Tiles& tiles, int r) {
  if constexpr (kParts<Tiles> == 0)
    return tiles.registers[r];
  else
    return map_parts([r](const auto& tile) { return tile.registers[r]; }, tiles);
}
template <typename Tiles>
using element_of_t = decltype(element_of(*static_cast<const Tiles*>(nullptr), 0));

template <typename Tiles, typename E>
KILN_DEVICE void set_element(Tiles& tiles, int r, const E& element) {
  if constexpr (kParts<Tiles> == 0)
    tiles.registers[r] = element;
  else
    map_parts([r](auto& tile, auto number) { return tile.registers[r] = number; }, tiles, element);
}

/// Tiles of the dtypes of `tiles`, of another shape and layout, their elements not yet set.
template <typename ShapeT, typename LayoutT, typename Tiles>
KILN_DEVICE auto unset_tiles(const Tiles& tiles) {
  return map_parts(
      [](const auto& tile) {
        Tile<typename remove_cvref_t<decltype(tile)>::value_type, ShapeT, LayoutT> result;
        return result;
      },
      tiles);
}

}  // namespace kiln::tl
