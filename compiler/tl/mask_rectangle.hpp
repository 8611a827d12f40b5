#pragma once

#include "compiler/tl/mask.hpp"

namespace kiln::tl {

/// Whether a mask is true in a rectangle that begins at (0, 0), and how far that one goes. Those that matrices have at
/// their edges are: a row or column number less than a bound.
template <typename M>
inline constexpr bool is_rectangle = false;
template <typename S>
inline constexpr bool is_rectangle<UniformMask<S>> = true;
template <typename S>
inline constexpr bool is_rectangle<LessMask<Affine<S, Constant<1>, Constant<0>>>> = true;
template <typename S>
inline constexpr bool is_rectangle<LessMask<Affine<S, Constant<0>, Constant<1>>>> = true;
template <typename S>
inline constexpr bool is_rectangle<LessMask<Affine<S, Constant<0>, Constant<0>>>> = true;
template <typename A, typename B>
inline constexpr bool is_rectangle<AndMask<A, B>> = is_rectangle<A> && is_rectangle<B>;

struct Extents {
  int rows, columns;
};

template <typename S>
KILN_DEVICE Extents extents_of(const UniformMask<S>& mask, Extents whole) {
  return mask.value ? whole : Extents{0, 0};
}
template <AffineTile A>
KILN_DEVICE Extents extents_of(const LessMask<A>& mask, Extents whole) {
  const int room = mask.room < 0 ? 0 : mask.room;
  if constexpr (is_same<typename A::row_stride_type, Constant<1>>)
    return {room < whole.rows ? room : whole.rows, whole.columns};
  else if constexpr (is_same<typename A::column_stride_type, Constant<1>>)
    return {whole.rows, room < whole.columns ? room : whole.columns};
  else
    return room > 0 ? whole : Extents{0, 0};
}
template <typename A, typename B>
KILN_DEVICE Extents extents_of(const AndMask<A, B>& mask, Extents whole) {
  return extents_of(mask.second, extents_of(mask.first, whole));
}

}  // namespace kiln::tl
