#pragma once

#include "compiler/tl/mask.hpp"
#include "compiler/tl/tile.hpp"

namespace kiln::tl {

/// Limits of an integer type.
template <Integer T>
struct IntegerLimits {
  static constexpr int kBits = 8 * static_cast<int>(sizeof(T));
  static constexpr T kMin = NumberTraits<T>::kIsSigned ? static_cast<T>(uint64_t{1} << (kBits - 1)) : T{0};
  static constexpr T kMax =
      NumberTraits<T>::kIsSigned ? static_cast<T>(~(~uint64_t{0} << (kBits - 1))) : static_cast<T>(~uint64_t{0});
  /// 2^(value bits), exact in any float type that reaches it.
  template <typename F>
  static constexpr F kEnd = NumberTraits<T>::kIsSigned ? -static_cast<F>(kMin) : static_cast<F>(kMax / 2 + 1) * F{2};
};

KILN_DEVICE float widen(float16 x) {
  return narrow_float::f16_to_f32(x.bits);
}
KILN_DEVICE float widen(bfloat16 x) {
  return narrow_float::bf16_to_f32(x.bits);
}
KILN_DEVICE float widen(float8e4m3 x) {
  return narrow_float::fp8e4m3_to_f32(x.bits);
}
KILN_DEVICE float widen(float8e5m2 x) {
  return narrow_float::fp8e5m2_to_f32(x.bits);
}
template <Number T>
KILN_DEVICE T widen(T x) {
  return x;
}

template <Number To>
KILN_DEVICE To narrow(float x) {
  if constexpr (is_same<To, float16>)
    return To::of_bits(narrow_float::f32_to_f16(x));
  else if constexpr (is_same<To, bfloat16>)
    return To::of_bits(narrow_float::f32_to_bf16(x));
  else if constexpr (is_same<To, float8e4m3>)
    return To::of_bits(narrow_float::f32_to_fp8e4m3(x));
  else
    return To::of_bits(narrow_float::f32_to_fp8e5m2(x));
}

/// One number as another type. Float to integer truncates and saturates, NaN gives 0 (C++ leaves both undefined, and
/// the two targets differ); integer to a narrower integer wraps; anything to bool is x != 0; to the narrow floats
/// rounds to nearest even by way of float.
template <Number To, Number From>
KILN_DEVICE To cast(From x) {
  if constexpr (is_same<To, From>) {
    return x;
  } else if constexpr (NumberTraits<From>::kIsNarrowFloat) {
    return cast<To>(widen(x));
  } else if constexpr (is_same<To, bool>) {
    return x != From{0};
  } else if constexpr (NumberTraits<To>::kIsNarrowFloat) {
    return narrow<To>(static_cast<float>(x));
  } else if constexpr (Floating<From> && Integer<To>) {
    using Limits = IntegerLimits<To>;
    constexpr From kEnd = Limits::template kEnd<From>;
    constexpr From kBegin = NumberTraits<To>::kIsSigned ? -kEnd : From{0};
#if defined(KILN_TARGET_CPU)
    // Kept within the limits, which a wider float holds, before it is narrowed: what says that they are passed would
    // have to be narrowed too, which takes longer than all else without AVX-512 (36416x19 f64 to i32, one thread of a
    // Zen 4: 254 us, 110 so).
    if constexpr (sizeof(To) < sizeof(From)) {
      constexpr auto kLeast = static_cast<From>(Limits::kMin), kMost = static_cast<From>(Limits::kMax);
      const From above = x > kLeast ? x : kLeast;
      const From within = above < kMost ? above : kMost;
      return static_cast<To>(x == x ? within : From{0});
    } else {
      const From above = x > kBegin ? x : kBegin;
      const To cut = static_cast<To>(above < kEnd ? above : From{0});
      return x >= kEnd ? Limits::kMax : x == x ? cut : To{0};
    }
#endif
    return x >= kEnd ? Limits::kMax : x > kBegin ? static_cast<To>(x) : x <= kBegin ? Limits::kMin : To{0};
  } else {
    return static_cast<To>(x);
  }
}

/// The tile with every element cast.
template <Number To, Number From, typename S, typename L>
KILN_DEVICE Tile<To, S, L> cast(const Tile<From, S, L>& x) {
  if constexpr (is_same<To, From>) return x;
  Tile<To, S, L> result;
#if defined(KILN_TARGET_CUDA)
  if constexpr (is_same<From, float> && (is_same<To, float16> || is_same<To, bfloat16>) && L::kRegisters % 2 == 0) {
    // Two conversions in one instruction, which also packs them; likewise two halves of a word below.
    KILN_UNROLL for (int r = 0; r < result.kRegisters; r += 2) {
      const uint32_t pair = narrow_float::f32_pair_to<is_same<To, bfloat16>>(x.registers[r], x.registers[r + 1]);
      memcpy(&result.registers[r], &pair, sizeof(pair));
    }
    return result;
  } else if constexpr (is_same<From, bfloat16> && is_same<To, float> && L::kRegisters % 2 == 0) {
    KILN_UNROLL for (int r = 0; r < result.kRegisters; r += 2) {
      uint32_t pair;
      memcpy(&pair, &x.registers[r], sizeof(pair));
      result.registers[r] = __builtin_bit_cast(float, pair << 16);
      result.registers[r + 1] = __builtin_bit_cast(float, pair & 0xffff0000u);
    }
    return result;
  } else
#endif
  {
    KILN_UNROLL for (int r = 0; r < result.kRegisters; ++r) result.registers[r] = cast<To>(x.registers[r]);
    return result;
  }
}

/// A symbolic index tile as values.
template <Number To = int64_t, typename S, typename R, typename C>
KILN_DEVICE Tile<To, S> cast(const Affine<S, R, C>& x) {
  using L = DefaultLayout<S>;
  Tile<To, S> result;
  KILN_UNROLL for (int r = 0; r < result.kRegisters; ++r) result.registers[r] = cast<To>(x.at(L::row(r), L::column(r)));
  return result;
}

/// A symbolic mask as values.
template <SymbolicMask M>
KILN_DEVICE Tile<bool, typename M::shape> to_values(const M& mask) {
  using L = DefaultLayout<typename M::shape>;
  Tile<bool, typename M::shape> result;
  KILN_UNROLL for (int r = 0; r < result.kRegisters; ++r) result.registers[r] = mask.at(L::row(r), L::column(r), r);
  return result;
}
template <Number To, SymbolicMask M>
KILN_DEVICE Tile<To, typename M::shape> cast(const M& mask) {
  return cast<To>(to_values(mask));
}
template <AffineTile A>
KILN_DEVICE auto to_values(const A& x) {
  return cast<int64_t>(x);
}
template <Number T, typename S, typename L>
KILN_DEVICE const Tile<T, S, L>& to_values(const Tile<T, S, L>& x) {
  return x;
}

/// The bits of a number as another type of the same size. (triton.language: x.to(dtype, bitcast=True).)
template <Number To, Number From>
KILN_DEVICE To bitcast(From x) {
  static_assert(sizeof(To) == sizeof(From),
                "bitcast: both dtypes have the same number of bits; cast changes the value");
  static_assert(is_same<To, From> || (!is_same<To, bool> && !is_same<From, bool>),
                "bitcast: bool has no bits to take; cast it to or from an integer");
  return __builtin_bit_cast(To, x);
}
/// The tile with the bits of every element as another type of the same size; nothing moves.
template <Number To, Number From, typename S, typename L>
KILN_DEVICE auto bitcast(const Tile<From, S, L>& x) {
  const auto values = to_values(x);
  Tile<To, S, typename decltype(values)::layout> result;
  KILN_UNROLL for (int r = 0; r < result.kRegisters; ++r) result.registers[r] = bitcast<To>(values.registers[r]);
  return result;
}

}  // namespace kiln::tl
