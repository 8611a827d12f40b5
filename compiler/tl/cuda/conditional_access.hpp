#pragma once

#include "compiler/tl/cast.hpp"

// One element read or written under a condition, as one predicated instruction. Written as C++ conditions they would be
// a branch each until late in the optimiser, and a masked tile has dozens: these compile in half the time.

namespace kiln::tl {

template <int kBytes>
struct BitsOf;
template <>
struct BitsOf<1> {
  using type = unsigned char;
};
template <>
struct BitsOf<2> {
  using type = unsigned short;
};
template <>
struct BitsOf<4> {
  using type = unsigned int;
};
template <>
struct BitsOf<8> {
  using type = unsigned long long;
};

#define KILN_CONDITIONAL_LOAD(suffix, constraint)                                                                 \
  asm volatile("{.reg .pred p; .reg .u64 a; setp.ne.u32 p, %2, 0; cvta.to.global.u64 a, %1; @p ld.global." suffix \
               " %0, [a];}"                                                                                       \
               : "+" constraint(bits)                                                                             \
               : "l"(address), "r"(wanted)                                                                        \
               : "memory")
#define KILN_CONDITIONAL_STORE(suffix, constraint)                                                                \
  asm volatile("{.reg .pred p; .reg .u64 a; setp.ne.u32 p, %2, 0; cvta.to.global.u64 a, %1; @p st.global." suffix \
               " [a], %0;}"                                                                                       \
               :                                                                                                  \
               : constraint(bits), "l"(address), "r"(wanted)                                                      \
               : "memory")

/// *address where `condition` holds, else `other`; the address is not touched then. Global memory.
template <Number T>
KILN_DEVICE T load_if(bool condition, const T* address, T other) {
  const unsigned int wanted = condition ? 1 : 0;
  auto stored = __builtin_bit_cast(typename BitsOf<sizeof(T)>::type, other);
  if constexpr (sizeof(T) == 1) {
    unsigned int bits = stored;  // PTX has no byte registers
    KILN_CONDITIONAL_LOAD("u8", "r");
    stored = static_cast<unsigned char>(bits);
  } else {
    auto& bits = stored;
    if constexpr (sizeof(T) == 2)
      KILN_CONDITIONAL_LOAD("u16", "h");
    else if constexpr (sizeof(T) == 4)
      KILN_CONDITIONAL_LOAD("u32", "r");
    else
      KILN_CONDITIONAL_LOAD("u64", "l");
  }
  return __builtin_bit_cast(T, stored);
}

/// Writes *address where `condition` holds. Global memory.
template <Number T>
KILN_DEVICE void store_if(bool condition, T* address, T value) {
  const unsigned int wanted = condition ? 1 : 0;
  const auto stored = __builtin_bit_cast(typename BitsOf<sizeof(T)>::type, value);
  if constexpr (sizeof(T) == 1) {
    const unsigned int bits = stored;
    KILN_CONDITIONAL_STORE("u8", "r");
  } else {
    const auto& bits = stored;
    if constexpr (sizeof(T) == 2)
      KILN_CONDITIONAL_STORE("u16", "h");
    else if constexpr (sizeof(T) == 4)
      KILN_CONDITIONAL_STORE("u32", "r");
    else
      KILN_CONDITIONAL_STORE("u64", "l");
  }
}

#undef KILN_CONDITIONAL_LOAD
#undef KILN_CONDITIONAL_STORE

}  // namespace kiln::tl
