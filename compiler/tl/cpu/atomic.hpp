#pragma once

#include "compiler/tl/tile.hpp"

namespace kiln::tl {

template <typename ShapeT>
using AtomicLayout = DefaultLayout<ShapeT>;

/// Stores `value` where *address is, bit for bit, `expected`; returns what was there.
template <Number T>
KILN_DEVICE T compare_and_exchange(T* address, T expected, T value) {
  __atomic_compare_exchange(address, &expected, &value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
  return expected;
}

/// One operation where `wanted`; returns the old value, 0 where not.
template <typename Op, Number T>
KILN_DEVICE T atomic_if(bool wanted, T* address, T value) {
  static_assert(!is_same<T, bool> && (sizeof(T) > 1 || Integer<T>),
                "atomic operations take integers and floats of 16 bits or more");
  if (!wanted) return T{};
  if constexpr (Integer<T> && is_same<Op, AtomicAdd>) {
    return __atomic_fetch_add(address, value, __ATOMIC_RELAXED);
  } else if constexpr (is_same<Op, AtomicAnd>) {
    return __atomic_fetch_and(address, value, __ATOMIC_RELAXED);
  } else if constexpr (is_same<Op, AtomicOr>) {
    return __atomic_fetch_or(address, value, __ATOMIC_RELAXED);
  } else if constexpr (is_same<Op, AtomicXor>) {
    return __atomic_fetch_xor(address, value, __ATOMIC_RELAXED);
  } else {
    T old;
    __atomic_load(address, &old, __ATOMIC_RELAXED);
    for (T next = Op::combine(old, value);
         !__atomic_compare_exchange(address, &old, &next, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED);)
      next = Op::combine(old, value);
    return old;
  }
}

/// f(true), ordered with all that the thread does before and after; streaming stores obey a fence of their own.
template <typename F>
KILN_DEVICE auto once_per_program(F f) {
  __builtin_ia32_sfence();
  __atomic_thread_fence(__ATOMIC_RELEASE);
  const auto old = f(true);
  __atomic_thread_fence(__ATOMIC_ACQUIRE);
  return old;
}

}  // namespace kiln::tl
