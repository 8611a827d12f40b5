#pragma once

#include "compiler/tl/math.hpp"
#include "compiler/tl/memory.hpp"

namespace kiln::tl {

// What an atomic operation makes of the old value and the given one.
struct AtomicAdd {
  template <Number T>
  KILN_DEVICE static T combine(T x, T y) {
    using Compute = compute_t<T>;
    return cast<T>(wrapping(cast<Compute>(x), cast<Compute>(y), [](auto u, auto v) { return u + v; }));
  }
};
struct AtomicMax {
  template <Number T>
  KILN_DEVICE static T combine(T x, T y) {
    return cast<T>(larger_number(cast<compute_t<T>>(x), cast<compute_t<T>>(y)));
  }
};
struct AtomicMin {
  template <Number T>
  KILN_DEVICE static T combine(T x, T y) {
    return cast<T>(smaller_number(cast<compute_t<T>>(x), cast<compute_t<T>>(y)));
  }
};
struct AtomicAnd {
  template <Integer T>
  KILN_DEVICE static T combine(T x, T y) {
    return static_cast<T>(x & y);
  }
};
struct AtomicOr {
  template <Integer T>
  KILN_DEVICE static T combine(T x, T y) {
    return static_cast<T>(x | y);
  }
};
struct AtomicXor {
  template <Integer T>
  KILN_DEVICE static T combine(T x, T y) {
    return static_cast<T>(x ^ y);
  }
};
struct AtomicExchange {
  template <Number T>
  KILN_DEVICE static T combine(T, T y) {
    return y;
  }
};

}  // namespace kiln::tl

#if defined(KILN_TARGET_CUDA)
#include "compiler/tl/cuda/atomic.hpp"
#else
#include "compiler/tl/cpu/atomic.hpp"
#endif

namespace kiln::tl {

/// A number or a tile as values of type T and shape ShapeT, in its default layout.
template <Number T, typename ShapeT, Operand V>
KILN_DEVICE auto values_for(const V& value) {
  if constexpr (Number<V>)
    return full_of<T, ShapeT>(cast<T>(value));
  else
    return broadcast_to_shape<ShapeT>(cast<T>(to_values(value)));
}

/// one(wanted, address, r) for each element of S, with `wanted` false for masked elements and for copies held by
/// threads that do not own theirs; the results as a tile.
template <typename S, AddressTile P, typename M, typename F>
KILN_DEVICE auto map_addresses(const P& pointers, const M& mask, F one) {
  using T = typename P::value_type;
  static_assert(is_same<T, remove_const_t<T>>, "an atomic operation writes: its pointers cannot be const");
  using L = DefaultLayout<S>;
  const auto wanted = mask_for<S>(mask);
  Tile<T, S, AtomicLayout<S>> old;
  const auto run = [&](auto offset_of_register) {
    KILN_UNROLL for (int r = 0; r < L::kRegisters; ++r) old.registers[r] =
        one(L::owns(r) && wanted.at(L::row(r), L::column(r), r), pointers.data + offset_of_register(r), r);
  };
  if constexpr (AffineTile<decltype(pointers.offsets)>) {
    run([&](int r) { return pointers.offsets.at(L::row(r), L::column(r)); });
  } else {
    const auto offsets = broadcast_to_shape<S>(to_values(pointers.offsets));
    run([&](int r) { return offsets.registers[r]; });
  }
  return old;
}

template <typename Op, AddressTile P, Operand V, typename M>
KILN_DEVICE auto atomic_update(const P& pointers, const V& value, const M& mask) {
  using T = typename P::value_type;
  using S = typename AccessShape<P, M>::type;
  const auto values = values_for<T, S>(value);
  return map_addresses<S>(pointers, mask, [&](bool wanted, T* address, int r) {
    return atomic_if<Op>(wanted, address, values.registers[r]);
  });
}

// Two forms of each. Tiles of addresses: every element once, cast to the element type, where the mask is true; relaxed:
// nothing else is ordered by it, which is all that accumulating needs. A plain pointer: once per program, and
// everything the program did before is seen by whoever sees the new value and orders by it (acquire and release), since
// such numbers are how programs tell each other how far they are. Both return the old values, 0 where the mask is
// false.
//
// Element types are integers and floats but for the 8-bit floats and bool; bit operations take integers.
#define KILN_ATOMIC(name, Op)                                                                            \
  template <AddressTile P, Operand V, typename M>                                                        \
  KILN_DEVICE auto name(const P& pointers, const V& value, const M& mask) {                              \
    return atomic_update<Op>(pointers, value, mask);                                                     \
  }                                                                                                      \
  template <AddressTile P, Operand V>                                                                    \
  KILN_DEVICE auto name(const P& pointers, const V& value) {                                             \
    return atomic_update<Op>(pointers, value, true);                                                     \
  }                                                                                                      \
  template <Number T, Number V>                                                                          \
  KILN_DEVICE T name(T* pointer, V value, bool mask = true) {                                            \
    const T given = cast<T>(value);                                                                      \
    return once_per_program([&](bool chosen) { return atomic_if<Op>(chosen && mask, pointer, given); }); \
  }
/// *p = *p + v. Integers wrap; floats round in the order in which programs arrive, which differs from run to run.
KILN_ATOMIC(atomic_add, AtomicAdd)
/// *p = max(*p, v); NaN propagates.
KILN_ATOMIC(atomic_max, AtomicMax)
/// *p = min(*p, v); NaN propagates.
KILN_ATOMIC(atomic_min, AtomicMin)
/// *p = *p & v.
KILN_ATOMIC(atomic_and, AtomicAnd)
/// *p = *p | v.
KILN_ATOMIC(atomic_or, AtomicOr)
/// *p = *p ^ v.
KILN_ATOMIC(atomic_xor, AtomicXor)
/// *p = v.
KILN_ATOMIC(atomic_xchg, AtomicExchange)
#undef KILN_ATOMIC

/// *p = value where *p is, bit for bit, `compare`; returns the old values. Ordered as above.
template <AddressTile P, Operand C, Operand V>
KILN_DEVICE auto atomic_cas(const P& pointers, const C& compare, const V& value) {
  using T = typename P::value_type;
  using S = typename P::shape;
  const auto expected = values_for<T, S>(compare);
  const auto values = values_for<T, S>(value);
  return map_addresses<S>(pointers, true, [&](bool wanted, T* address, int r) {
    return wanted ? compare_and_exchange(address, expected.registers[r], values.registers[r]) : T{};
  });
}
template <Number T, Number C, Number V>
KILN_DEVICE T atomic_cas(T* pointer, C compare, V value) {
  const T expected = cast<T>(compare), given = cast<T>(value);
  return once_per_program([&](bool chosen) { return chosen ? compare_and_exchange(pointer, expected, given) : T{}; });
}

}  // namespace kiln::tl
