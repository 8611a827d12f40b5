#pragma once

#include "compiler/tl/broadcast.hpp"
#include "compiler/tl/separable.hpp"

#if defined(KILN_TARGET_CUDA)
#include "compiler/tl/cuda/packed_arithmetic.hpp"
#include "compiler/tl/cuda/packed_bytes.hpp"
#include "compiler/tl/cuda/scalar_math.hpp"
#else
#include "compiler/tl/cpu/scalar_math.hpp"
#include "compiler/tl/cpu/whole_division.hpp"
#endif

namespace kiln::tl {

/// What a pipeline hands to its body: a tile in the GPU's shared memory; on the CPU one that is still in memory.
template <typename T>
inline constexpr bool is_pipeline_tile = false;
template <typename T>
concept PipelineTile = is_pipeline_tile<T>;

/// Anything with elements: values, symbolic indices, a symbolic mask, or a pipeline's tile.
template <typename T>
concept AnyTile = ValueTile<T> || SymbolicIndex<T> || SymbolicMask<T> || PipelineTile<T>;
template <typename T>
concept Operand = AnyTile<T> || Number<T>;

template <typename T>
using values_t = remove_cvref_t<decltype(to_values(*static_cast<const T*>(nullptr)))>;

template <Number To, PipelineTile X>
KILN_DEVICE auto cast(const X& x) {
  return cast<To>(to_values(x));
}
template <int... kExtents, PipelineTile X>
KILN_DEVICE auto broadcast_to(const X& x) {
  return broadcast_to<kExtents...>(to_values(x));
}

/// f(elements...) over tiles of one shape and layout.
template <typename F, ValueTile First, ValueTile... Rest>
KILN_DEVICE auto map_registers(F f, const First& first, const Rest&... rest) {
  using Result = decltype(f(first.registers[0], rest.registers[0]...));
  Tile<Result, typename First::shape, typename First::layout> result;
  KILN_UNROLL for (int r = 0; r < result.kRegisters; ++r) result.registers[r] =
      f(first.registers[r], rest.registers[r]...);
  return result;
}

/// f(elements...) over tiles broadcast to ShapeT.
template <typename ShapeT, typename F, ValueTile... Tiles>
KILN_DEVICE auto map_broadcast(F f, const Tiles&... tiles) {
  using L = typename MeetingLayout<ShapeT, Tiles...>::type;
  return map_registers(f, broadcast_to_shape<ShapeT, L>(tiles)...);
}

/// The element type a binary operation runs in.
template <bool kKeepType, Operand A, Operand B>
struct BinaryType {
  using type = promote_t<typename values_t<A>::value_type, typename values_t<B>::value_type>;
};
template <bool kKeepType, AnyTile A, Number B>
struct BinaryType<kKeepType, A, B> {
  using V = typename values_t<A>::value_type;
  using type = conditional_t<kKeepType, promote_scalar_t<V, B>, compare_scalar_t<V, B>>;
};
template <bool kKeepType, Number A, AnyTile B>
struct BinaryType<kKeepType, A, B> : BinaryType<kKeepType, B, A> {};
/// Two numbers meet as two tiles do.
template <bool kKeepType, Number A, Number B>
struct BinaryType<kKeepType, A, B> {
  using type = promote_t<A, B>;
};

/// f(a, b) with both cast to the compute type of their promoted type, shapes broadcast. kKeepType: the result takes the
/// promoted type; otherwise f compares.
template <bool kKeepType, typename F, Operand A, Operand B>
KILN_DEVICE auto map_binary(F f, const A& a, const B& b) {
  using Type = typename BinaryType<kKeepType, A, B>::type;
  using Compute = compute_t<Type>;
  using Result = conditional_t<kKeepType, Type, decltype(f(Compute{}, Compute{}))>;
  if constexpr (Number<A> && Number<B>) {
    return cast<Result>(f(cast<Compute>(a), cast<Compute>(b)));
  } else if constexpr (Number<B>) {
    const Compute y = cast<Compute>(b);
    return map_registers([f, y](auto x) { return cast<Result>(f(cast<Compute>(x), y)); }, to_values(a));
  } else if constexpr (Number<A>) {
    const Compute x = cast<Compute>(a);
    return map_registers([f, x](auto y) { return cast<Result>(f(x, cast<Compute>(y))); }, to_values(b));
  } else {
    using VA = values_t<A>;
    using VB = values_t<B>;
    const auto apply = [f](auto x, auto y) { return cast<Result>(f(cast<Compute>(x), cast<Compute>(y))); };
    if constexpr (is_same<typename VA::shape, typename VB::shape> &&
                  is_same<typename VA::layout, typename VB::layout>) {
      return map_registers(apply, to_values(a), to_values(b));
    } else {
      return map_broadcast<broadcast_shape_t<typename VA::shape, typename VB::shape>>(apply, to_values(a),
                                                                                      to_values(b));
    }
  }
}

/// The type of an operand's elements, or of the number.
template <Operand A>
struct ElementOf {
  using type = A;
};
template <AnyTile A>
struct ElementOf<A> {
  using type = typename values_t<A>::value_type;
};

/// f(x) in the compute type; kKeepType as above.
template <bool kKeepType, typename F, Operand A>
KILN_DEVICE auto map_unary(F f, const A& a) {
  using Type = typename ElementOf<A>::type;
  const auto apply = [f](Type x) {
    if constexpr (kKeepType)
      return cast<Type>(f(cast<compute_t<Type>>(x)));
    else
      return f(cast<compute_t<Type>>(x));
  };
  if constexpr (Number<A>)
    return apply(a);
  else
    return map_registers(apply, to_values(a));
}

/// triton.language.map_elementwise: a scalar function over tiles and numbers of any mix, broadcast; it sees the
/// elements as they are stored.
template <typename F, Operand A>
KILN_DEVICE auto map_elementwise(F f, const A& a) {
  if constexpr (Number<A>)
    return f(a);
  else
    return map_registers(f, to_values(a));
}
template <typename F, Operand A, Operand B>
KILN_DEVICE auto map_elementwise(F f, const A& a, const B& b) {
  if constexpr (Number<A> && Number<B>) {
    return f(a, b);
  } else if constexpr (Number<B>) {
    return map_registers([f, b](auto x) { return f(x, b); }, to_values(a));
  } else if constexpr (Number<A>) {
    return map_registers([f, a](auto y) { return f(a, y); }, to_values(b));
  } else {
    using S = broadcast_shape_t<typename values_t<A>::shape, typename values_t<B>::shape>;
    return map_broadcast<S>(f, to_values(a), to_values(b));
  }
}
template <typename F, Operand A, Operand B, Operand C>
KILN_DEVICE auto map_elementwise(F f, const A& a, const B& b, const C& c) {
  if constexpr (Number<A>) {
    return map_elementwise([f, a](auto y, auto z) { return f(a, y, z); }, b, c);
  } else if constexpr (Number<B>) {
    return map_elementwise([f, b](auto x, auto z) { return f(x, b, z); }, a, c);
  } else if constexpr (Number<C>) {
    return map_elementwise([f, c](auto x, auto y) { return f(x, y, c); }, a, b);
  } else {
    using S = broadcast_shape_t<broadcast_shape_t<typename values_t<A>::shape, typename values_t<B>::shape>,
                                typename values_t<C>::shape>;
    return map_broadcast<S>(f, to_values(a), to_values(b), to_values(c));
  }
}

/// Whole-number division and remainder as C++ defines them, made total: x / 0 and x % 0 are 0, and the smallest value
/// over -1 wraps. The CPU would raise a signal for both, which would end the process.
template <Integer T>
KILN_DEVICE T divide(T x, T y) {
  const auto negated = static_cast<T>(uint64_t{0} - static_cast<uint64_t>(x));
#if defined(KILN_TARGET_CPU)
  if (divides_by_floats<T>()) {
    const T quotient = quotient_by_floats(x, y);
    return NumberTraits<T>::kIsSigned && y == static_cast<T>(-1) ? negated : quotient;
  }
#endif
  if constexpr (NumberTraits<T>::kIsSigned)
    if (y == T(-1)) return negated;
  return y == T{0} ? T{0} : static_cast<T>(x / y);
}
template <Floating T>
KILN_DEVICE T divide(T x, T y) {
  return x / y;
}
template <Integer T>
KILN_DEVICE T modulo(T x, T y) {
#if defined(KILN_TARGET_CPU)
  if (divides_by_floats<T>()) {
    const auto whole = static_cast<uint64_t>(divide(x, y)) * static_cast<uint64_t>(y);
    return y == T{0} ? T{0} : static_cast<T>(static_cast<uint64_t>(x) - whole);
  }
#endif
  if constexpr (NumberTraits<T>::kIsSigned)
    if (y == T(-1)) return T{0};
  return y == T{0} ? T{0} : static_cast<T>(x % y);
}

/// One side is a tile, the other a tile or a number, and symbolic forms do not cover the pair.
template <typename A, typename B>
concept TileOperands = Operand<A> && Operand<B> && (AnyTile<A> || AnyTile<B>);
template <typename A, typename B>
concept ValueOperands = TileOperands<A, B> && !(AffineTile<A> && Integer<B>) && !(Integer<A> && AffineTile<B>);
template <typename A, typename B>
concept SummedOperands = ValueOperands<A, B> && !(AffineTile<A> && AffineTile<B>);
template <typename A, typename B>
concept ComparedOperands = TileOperands<A, B> && !(AffineTile<A> && Integer<B>);

// Signed overflow wraps on both targets: integers are computed unsigned.
template <Number T>
using wrapping_t = conditional_t<Integer<T> && !is_same<T, bool>, uint64_t, T>;

template <Number T, typename F>
KILN_DEVICE T wrapping(T x, T y, F f) {
  return static_cast<T>(f(static_cast<wrapping_t<T>>(x), static_cast<wrapping_t<T>>(y)));
}

template <typename A, typename B>
  requires(SummedOperands<A, B> && !kSumIsSeparable<A, B>)
KILN_DEVICE auto operator+(const A& a, const B& b) {
  return map_binary<true>(
      [](auto x, auto y) {
        using Wide = wrapping_t<decltype(x)>;
        return static_cast<decltype(x)>(static_cast<Wide>(x) + static_cast<Wide>(y));
      },
      a, b);
}
template <typename A, typename B>
  requires(SummedOperands<A, B> && !kDifferenceIsSeparable<A, B>)
KILN_DEVICE auto operator-(const A& a, const B& b) {
  return map_binary<true>(
      [](auto x, auto y) {
        using Wide = wrapping_t<decltype(x)>;
        return static_cast<decltype(x)>(static_cast<Wide>(x) - static_cast<Wide>(y));
      },
      a, b);
}
template <typename A, typename B>
  requires(ValueOperands<A, B> && !kProductIsSeparable<A, B>)
KILN_DEVICE auto operator*(const A& a, const B& b) {
  return map_binary<true>(
      [](auto x, auto y) {
        using Wide = wrapping_t<decltype(x)>;
        return static_cast<decltype(x)>(static_cast<Wide>(x) * static_cast<Wide>(y));
      },
      a, b);
}
/// C++'s: integers truncate towards zero (Triton's //). Floats: see div_rn.
template <typename A, typename B>
  requires TileOperands<A, B>
KILN_DEVICE auto operator/(const A& a, const B& b) {
  return map_binary<true>(
      [](auto x, auto y) {
        if constexpr (Floating<decltype(x)>)
          return scalar::quotient(x, y);
        else
          return divide(x, y);
      },
      a, b);
}
/// Integers only; the sign is the dividend's.
template <typename A, typename B>
  requires TileOperands<A, B>
KILN_DEVICE auto operator%(const A& a, const B& b) {
  return map_binary<true>([](auto x, auto y) { return modulo(x, y); }, a, b);
}

template <typename A, typename B>
  requires ComparedOperands<A, B>
KILN_DEVICE auto operator<(const A& a, const B& b) {
  return map_binary<false>([](auto x, auto y) { return x < y; }, a, b);
}
template <typename A, typename B>
  requires ComparedOperands<A, B>
KILN_DEVICE auto operator<=(const A& a, const B& b) {
  return map_binary<false>([](auto x, auto y) { return x <= y; }, a, b);
}
template <typename A, typename B>
  requires ComparedOperands<A, B>
KILN_DEVICE auto operator>(const A& a, const B& b) {
  return map_binary<false>([](auto x, auto y) { return x > y; }, a, b);
}
template <typename A, typename B>
  requires ComparedOperands<A, B>
KILN_DEVICE auto operator>=(const A& a, const B& b) {
  return map_binary<false>([](auto x, auto y) { return x >= y; }, a, b);
}
template <typename A, typename B>
  requires TileOperands<A, B>
KILN_DEVICE auto operator==(const A& a, const B& b) {
  return map_binary<false>([](auto x, auto y) { return x == y; }, a, b);
}
template <typename A, typename B>
  requires TileOperands<A, B>
KILN_DEVICE auto operator!=(const A& a, const B& b) {
  return map_binary<false>([](auto x, auto y) { return x != y; }, a, b);
}

// Logic on masks and bits of integers; two symbolic masks under & and && stay symbolic (mask.hpp).
template <typename A, typename B>
concept BitOperands = TileOperands<A, B> && !(SymbolicMask<A> && SymbolicMask<B>);
template <typename A, typename B>
  requires BitOperands<A, B>
KILN_DEVICE auto operator&(const A& a, const B& b) {
  return map_binary<true>([](auto x, auto y) { return static_cast<decltype(x)>(x & y); }, a, b);
}
template <typename A, typename B>
  requires TileOperands<A, B>
KILN_DEVICE auto operator|(const A& a, const B& b) {
  return map_binary<true>([](auto x, auto y) { return static_cast<decltype(x)>(x | y); }, a, b);
}
template <typename A, typename B>
  requires TileOperands<A, B>
KILN_DEVICE auto operator^(const A& a, const B& b) {
  return map_binary<true>([](auto x, auto y) { return static_cast<decltype(x)>(x ^ y); }, a, b);
}
template <typename A, typename B>
  requires BitOperands<A, B>
KILN_DEVICE auto operator&&(const A& a, const B& b) {
  return (a != false) & (b != false);
}
template <typename A, typename B>
  requires TileOperands<A, B>
KILN_DEVICE auto operator||(const A& a, const B& b) {
  return (a != false) | (b != false);
}
template <AnyTile A>
KILN_DEVICE auto operator!(const A& a) {
  return map_unary<false>([](auto x) { return x == decltype(x){}; }, a);
}
template <AnyTile A>
KILN_DEVICE auto operator~(const A& a) {
  return map_unary<true>(
      [](auto x) {
        if constexpr (is_same<decltype(x), bool>)
          return !x;
        else
          return static_cast<decltype(x)>(~x);
      },
      a);
}
/// Shifts by the width or more give 0, or -1 for the right shift of a negative number.
template <typename A, typename B>
  requires TileOperands<A, B>
KILN_DEVICE auto operator<<(const A& a, const B& b) {
  return map_binary<true>(
      [](auto x, auto y) {
        constexpr int kBits = 8 * static_cast<int>(sizeof(x));
        const bool outside = static_cast<uint64_t>(y) >= kBits;
        return outside ? decltype(x){0} : static_cast<decltype(x)>(static_cast<uint64_t>(x) << static_cast<int>(y));
      },
      a, b);
}
template <typename A, typename B>
  requires TileOperands<A, B>
KILN_DEVICE auto operator>>(const A& a, const B& b) {
  return map_binary<true>(
      [](auto x, auto y) {
        constexpr int kBits = 8 * static_cast<int>(sizeof(x));
        const bool outside = static_cast<uint64_t>(y) >= kBits;
        return static_cast<decltype(x)>(outside ? (x < decltype(x){0} ? decltype(x)(-1) : decltype(x){0})
                                                : static_cast<decltype(x)>(x >> static_cast<int>(y)));
      },
      a, b);
}

template <AnyTile A>
  requires(!AffineTile<A>)
KILN_DEVICE auto operator-(const A& a) {
  return map_unary<true>(
      [](auto x) {
        if constexpr (Integer<decltype(x)>)
          return static_cast<decltype(x)>(uint64_t{0} - static_cast<uint64_t>(x));
        else
          return -x;
      },
      a);
}

/// Of a symbolic mask, broadcast to the tile's shape, the values at the places that the tile's layout has: no tile of
/// them is made elsewhere and moved.
template <ValueTile TileT, SymbolicMask M>
KILN_DEVICE auto mask_values_like(const TileT&, const M& mask) {
  using S = typename TileT::shape;
  using L = typename TileT::layout;
  using MaskShape = typename M::shape;
  Tile<bool, S, L> result;
  KILN_UNROLL for (int r = 0; r < result.kRegisters; ++r) result.registers[r] =
      mask.at(MaskShape::kRows == 1 ? 0 : L::row(r), MaskShape::kColumns == 1 ? 0 : L::column(r), r);
  return result;
}
/// Whether A is a tile to whose shape MaskShape broadcasts, in a layout that others take where they meet it.
template <typename A, typename MaskShape>
inline constexpr bool kIsMetBy = false;
template <ValueTile A, typename MaskShape>
  requires(is_same<broadcast_shape_t<MaskShape, typename A::shape>, typename A::shape>)
inline constexpr bool kIsMetBy<A, MaskShape> = kIsMeetingLayout<typename values_t<A>::layout>;

/// x where condition holds, else y; types promote, shapes broadcast. Both sides are evaluated.
template <AnyTile Condition, Operand A, Operand B>
KILN_DEVICE auto where(const Condition& condition, const A& a, const B& b) {
  if constexpr (SymbolicMask<Condition> && kIsMetBy<A, typename Condition::shape>) {
    return where(mask_values_like(to_values(a), condition), a, b);
  } else if constexpr (SymbolicMask<Condition> && kIsMetBy<B, typename Condition::shape>) {
    return where(mask_values_like(to_values(b), condition), a, b);
  } else if constexpr (Number<A> && Number<B>) {
    using Type = promote_t<A, B>;
    return map_registers([a, b](auto c) { return c ? cast<Type>(a) : cast<Type>(b); }, to_values(condition));
  } else {
    using Type = typename BinaryType<true, A, B>::type;
    using C = values_t<Condition>;
    if constexpr (Number<A>) {
      return where(!condition, b, a);
    } else if constexpr (Number<B>) {
      using S = broadcast_shape_t<typename C::shape, typename values_t<A>::shape>;
      const Type y = cast<Type>(b);
      return map_broadcast<S>([y](bool c, auto x) { return c ? cast<Type>(x) : y; }, cast<bool>(to_values(condition)),
                              to_values(a));
    } else {
      using S = broadcast_shape_t<typename C::shape,
                                  broadcast_shape_t<typename values_t<A>::shape, typename values_t<B>::shape>>;
      return map_broadcast<S>([](bool c, auto x, auto y) { return c ? cast<Type>(x) : cast<Type>(y); },
                              cast<bool>(to_values(condition)), to_values(a), to_values(b));
    }
  }
}

/// The same where one condition holds for all elements.
template <Number Condition, Operand A, Operand B>
KILN_DEVICE auto where(Condition condition, const A& a, const B& b) {
  using Type = typename BinaryType<true, A, B>::type;
  const bool first = cast<bool>(condition);
  return map_elementwise([first](auto x, auto y) { return first ? cast<Type>(x) : cast<Type>(y); }, a, b);
}

}  // namespace kiln::tl
