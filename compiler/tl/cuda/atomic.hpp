#pragma once

#include "compiler/tl/cuda/conditional_access.hpp"
#include "compiler/tl/cuda/program.hpp"

namespace kiln::tl {

/// The default layout, where only owners hold their elements: what an operation leaves that is done once per element.
/// Whoever needs the copies gets them through a change of layout; an atomic whose result nobody reads pays for none.
template <typename ShapeT>
struct Owned : Blocked<ShapeT> {};
template <typename ShapeT>
using AtomicLayout = conditional_t<Blocked<ShapeT>::kReplicated, Owned<ShapeT>, Blocked<ShapeT>>;

template <Number T>
using bits_t = typename BitsOf<sizeof(T)>::type;

#define KILN_EXCHANGE(suffix, constraint)                                                                         \
  asm volatile("{.reg .u64 a; cvta.to.global.u64 a, %1; atom.relaxed.gpu.global.cas." suffix " %0, [a], %2, %3;}" \
               : "=" constraint(old)                                                                              \
               : "l"(address), constraint(expected), constraint(value)                                            \
               : "memory")

KILN_DEVICE unsigned short exchange_bits(unsigned short* address, unsigned short expected, unsigned short value) {
  unsigned short old;
  KILN_EXCHANGE("b16", "h");
  return old;
}
KILN_DEVICE unsigned int exchange_bits(unsigned int* address, unsigned int expected, unsigned int value) {
  unsigned int old;
  KILN_EXCHANGE("b32", "r");
  return old;
}
KILN_DEVICE unsigned long long exchange_bits(unsigned long long* address, unsigned long long expected,
                                             unsigned long long value) {
  unsigned long long old;
  KILN_EXCHANGE("b64", "l");
  return old;
}
/// No instruction has bytes: the two bytes around it are exchanged until the other one stands still.
KILN_DEVICE unsigned char exchange_bits(unsigned char* address, unsigned char expected, unsigned char value) {
  const uint64_t place = reinterpret_cast<uint64_t>(address);
  unsigned short* const pair = reinterpret_cast<unsigned short*>(place & ~uint64_t{1});
  const unsigned int shift = static_cast<unsigned int>(place & 1) * 8;
  unsigned short seen = *static_cast<volatile unsigned short*>(pair);
  while (static_cast<unsigned char>(seen >> shift) == expected) {
    const unsigned short next =
        static_cast<unsigned short>((seen & ~(0xffu << shift)) | (static_cast<unsigned int>(value) << shift));
    const unsigned short before = exchange_bits(pair, seen, next);
    if (before == seen) break;
    seen = before;
  }
  return static_cast<unsigned char>(seen >> shift);
}
#undef KILN_EXCHANGE

/// Stores `value` where *address is, bit for bit, `expected`; returns what was there.
template <Number T>
KILN_DEVICE T compare_and_exchange(T* address, T expected, T value) {
  return __builtin_bit_cast(
      T, exchange_bits(reinterpret_cast<bits_t<T>*>(address), __builtin_bit_cast(bits_t<T>, expected),
                       __builtin_bit_cast(bits_t<T>, value)));
}

/// Any operation, in a function of its own: a tile would repeat the loop for each of its registers. Does not write what
/// is there already, so a maximum that seldom changes is mostly reads.
template <typename Op, Number T>
__device__ __noinline__ T exchange_until_done(T* address, T value) {
  using Bits = bits_t<T>;
  Bits seen = *reinterpret_cast<volatile Bits*>(address);
  while (true) {
    const Bits next = __builtin_bit_cast(Bits, Op::combine(__builtin_bit_cast(T, seen), value));
    if (next == seen) break;
    const Bits before = exchange_bits(reinterpret_cast<Bits*>(address), seen, next);
    if (before == seen) break;
    seen = before;
  }
  return __builtin_bit_cast(T, seen);
}

#define KILN_ATOMIC(instruction, constraint)                                                             \
  asm volatile(                                                                                          \
      "{.reg .pred p; .reg .u64 a; setp.ne.u32 p, %3, 0; cvta.to.global.u64 a, %1; @p atom.relaxed.gpu." \
      "global." instruction " %0, [a], %2;}"                                                             \
      : "+" constraint(old)                                                                              \
      : "l"(address), constraint(bits), "r"(chosen)                                                      \
      : "memory")
#define KILN_ATOMIC_OF_WIDTH(instruction, type)  \
  if constexpr (sizeof(T) == 4)                  \
    KILN_ATOMIC(instruction "." type "32", "r"); \
  else                                           \
    KILN_ATOMIC(instruction "." type "64", "l")

/// One operation where `wanted`; returns the old value, 0 where not. Global memory.
template <typename Op, Number T>
KILN_DEVICE T atomic_if(bool wanted, T* address, T value) {
  static_assert(!is_same<T, bool> && (sizeof(T) > 1 || Integer<T>),
                "atomic operations take integers and floats of 16 bits or more");
  constexpr bool kIsAdd = is_same<Op, AtomicAdd>;
  constexpr bool kIsWide = sizeof(T) >= 4, kIsWideInteger = kIsWide && Integer<T>;
  constexpr bool kIsSigned = NumberTraits<T>::kIsSigned;
  const unsigned int chosen = wanted ? 1 : 0;
  const auto bits = __builtin_bit_cast(bits_t<T>, value);
  bits_t<T> old = 0;
  if constexpr (kIsAdd && is_same<T, float16>) {
    KILN_ATOMIC("add.noftz.f16", "h");
#if __CUDA_ARCH__ >= 900
  } else if constexpr (kIsAdd && is_same<T, bfloat16>) {
    KILN_ATOMIC("add.noftz.bf16", "h");
#endif
  } else if constexpr (kIsAdd && kIsWide && Floating<T>) {
    KILN_ATOMIC_OF_WIDTH("add", "f");
  } else if constexpr (kIsAdd && kIsWideInteger) {
    KILN_ATOMIC_OF_WIDTH("add", "u");  // two's complement: signed and unsigned are one
  } else if constexpr (is_same<Op, AtomicMax> && kIsWideInteger && kIsSigned) {
    KILN_ATOMIC_OF_WIDTH("max", "s");
  } else if constexpr (is_same<Op, AtomicMax> && kIsWideInteger) {
    KILN_ATOMIC_OF_WIDTH("max", "u");
  } else if constexpr (is_same<Op, AtomicMin> && kIsWideInteger && kIsSigned) {
    KILN_ATOMIC_OF_WIDTH("min", "s");
  } else if constexpr (is_same<Op, AtomicMin> && kIsWideInteger) {
    KILN_ATOMIC_OF_WIDTH("min", "u");
  } else if constexpr (is_same<Op, AtomicAnd> && kIsWide) {
    KILN_ATOMIC_OF_WIDTH("and", "b");
  } else if constexpr (is_same<Op, AtomicOr> && kIsWide) {
    KILN_ATOMIC_OF_WIDTH("or", "b");
  } else if constexpr (is_same<Op, AtomicXor> && kIsWide) {
    KILN_ATOMIC_OF_WIDTH("xor", "b");
  } else if constexpr (is_same<Op, AtomicExchange> && kIsWide) {
    KILN_ATOMIC_OF_WIDTH("exch", "b");
  } else {
    if (wanted) return exchange_until_done<Op>(address, value);
  }
  return __builtin_bit_cast(T, old);
}
#undef KILN_ATOMIC_OF_WIDTH
#undef KILN_ATOMIC

/// f(true) in one thread, between all that the program did before and all that it does after; every thread gets the
/// result.
template <typename F>
KILN_DEVICE auto once_per_program(F f) {
  using T = decltype(f(true));
  __shared__ T shared;
  sync_threads();
  if (threadIdx.x == 0) {
    __threadfence();
    shared = f(true);
    __threadfence();
  }
  sync_threads();
  const T old = shared;
  sync_threads();  // before another operation may write it
  return old;
}

}  // namespace kiln::tl
