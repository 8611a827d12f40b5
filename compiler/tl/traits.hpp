#pragma once

#include "compiler/tl/target.hpp"

// The few pieces of <type_traits> that tiles need: kernels see no system header.

namespace kiln::tl {

template <typename A, typename B>
inline constexpr bool is_same = false;
template <typename A>
inline constexpr bool is_same<A, A> = true;

template <bool kCondition, typename A, typename B>
struct Conditional {
  using type = A;
};
template <typename A, typename B>
struct Conditional<false, A, B> {
  using type = B;
};
template <bool kCondition, typename A, typename B>
using conditional_t = typename Conditional<kCondition, A, B>::type;

template <typename T>
struct RemoveCvRef {
  using type = T;
};
template <typename T>
struct RemoveCvRef<const T> : RemoveCvRef<T> {};
template <typename T>
struct RemoveCvRef<T&> : RemoveCvRef<T> {};
template <typename T>
struct RemoveCvRef<T&&> : RemoveCvRef<T> {};
template <typename T>
using remove_cvref_t = typename RemoveCvRef<T>::type;

template <typename T>
struct RemoveConst {
  using type = T;
};
template <typename T>
struct RemoveConst<const T> {
  using type = T;
};
template <typename T>
using remove_const_t = typename RemoveConst<T>::type;

template <typename T>
inline constexpr bool is_lvalue_reference = false;
template <typename T>
inline constexpr bool is_lvalue_reference<T&> = true;

/// 0, 1, ..., n - 1 as template arguments, for expanding packs by position.
template <int... kIndex>
struct Sequence {};
template <int kCount, int... kIndex>
struct MakeSequence : MakeSequence<kCount - 1, kCount - 1, kIndex...> {};
template <int... kIndex>
struct MakeSequence<0, kIndex...> {
  using type = Sequence<kIndex...>;
};
template <int kCount>
KILN_DEVICE constexpr typename MakeSequence<kCount>::type make_sequence() {
  return {};
}

}  // namespace kiln::tl
