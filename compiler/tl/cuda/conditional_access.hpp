#pragma once

#include "compiler/tl/cast.hpp"

// One element or packet read or written under a condition, as one predicated instruction. Written as C++ conditions
// they would be a branch each until late in the optimiser, and a masked tile has dozens: these compile in half the
// time.

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

/// The same of a packet of 16 bytes.
KILN_DEVICE uint4 load_packet_if(bool condition, const uint4* address, uint4 other) {
  asm volatile(
      "{.reg .pred p; .reg .u64 a; setp.ne.u32 p, %5, 0; cvta.to.global.u64 a, %4; "
      "@p ld.global.v4.u32 {%0, %1, %2, %3}, [a];}"
      : "+r"(other.x), "+r"(other.y), "+r"(other.z), "+r"(other.w)
      : "l"(address), "r"(condition ? 1u : 0u)
      : "memory");
  return other;
}
KILN_DEVICE void store_packet_if(bool condition, uint4* address, const uint4& value) {
  asm volatile(
      "{.reg .pred p; .reg .u64 a; setp.ne.u32 p, %5, 0; cvta.to.global.u64 a, %4; "
      "@p st.global.v4.u32 [a], {%0, %1, %2, %3};}"
      :
      : "r"(value.x), "r"(value.y), "r"(value.z), "r"(value.w), "l"(address), "r"(condition ? 1u : 0u)
      : "memory");
}
/// Of 8 bytes.
KILN_DEVICE uint2 load_packet_if(bool condition, const uint2* address, uint2 other) {
  const auto bits = load_if(condition, reinterpret_cast<const unsigned long long*>(address),
                            __builtin_bit_cast(unsigned long long, other));
  return __builtin_bit_cast(uint2, bits);
}
KILN_DEVICE void store_packet_if(bool condition, uint2* address, const uint2& value) {
  store_if(condition, reinterpret_cast<unsigned long long*>(address), __builtin_bit_cast(unsigned long long, value));
}
/// Two elements of 8 bytes.
KILN_DEVICE ulonglong2 load_packet_if(bool condition, const ulonglong2* address, const ulonglong2& other) {
  const uint4 bits =
      load_packet_if(condition, reinterpret_cast<const uint4*>(address), __builtin_bit_cast(uint4, other));
  return __builtin_bit_cast(ulonglong2, bits);
}
KILN_DEVICE void store_packet_if(bool condition, ulonglong2* address, const ulonglong2& value) {
  store_packet_if(condition, reinterpret_cast<uint4*>(address), __builtin_bit_cast(uint4, value));
}
template <Integer T>
KILN_DEVICE T load_packet_if(bool condition, const T* address, T other) {
  return load_if(condition, address, other);
}
template <Integer T>
KILN_DEVICE void store_packet_if(bool condition, T* address, T value) {
  store_if(condition, address, value);
}

}  // namespace kiln::tl
