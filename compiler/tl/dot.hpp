#pragma once

#include "compiler/tl/deferred_load.hpp"

namespace kiln::tl {

/// How the products of float operands are formed: in full, or from operands of 11 bits (the GPU's tensor cores; what
/// becomes of the other bits says docs/tile-language.md). Means nothing for other operands, and nothing on the CPU,
/// which computes in full.
enum class DotPrecision { ieee, tf32 };

/// More elements of K than a dot has.
inline constexpr int kAllImpreciseAcc = 1 << 30;

/// Whether sums of type TileT, times a factor for each of their rows, cost nothing where the factors are 1.
template <typename TileT>
inline constexpr bool kSparesFactorsOfOne = false;

/// The type that products of T are summed in.
template <Number T>
using dot_sum_t = conditional_t<is_same<T, double>, double, conditional_t<Floating<T>, float, int32_t>>;

}  // namespace kiln::tl

namespace kiln::tl {

/// Sums of which nobody knows that products go on.
template <int kLater, ValueTile Sums, typename... Computed>
KILN_DEVICE Sums wait_for_products(const Sums& sums, const Computed&...) {
  return sums;
}

}  // namespace kiln::tl

#if defined(KILN_TARGET_CUDA)
#include "compiler/tl/cuda/dot_tile.hpp"
#else
#include "compiler/tl/cpu/dot_tile.hpp"
#endif

namespace kiln::tl {

/// The tile that `dot` of operands of type T accumulates into, zeroed: kM x kN numbers of dot_sum_t<T> (float for
/// f16, bf16, fp8 and f32, double for f64, int32 for i8 and u8). It lies as the target multiplies: on the GPU in the
/// layout of the tensor cores' results, in which arithmetic, where, cast and store work on it as on any tile; another
/// tile that meets it takes that layout.
///
///     auto acc = tl::dot_accumulator<T, BLOCK_M, BLOCK_N>();
template <Number T, int kM, int kN, DotPrecision kPrecision = DotPrecision::ieee>
KILN_DEVICE auto dot_accumulator() {
  Tile<dot_sum_t<T>, Shape<kM, kN>, accumulator_layout_t<T, Shape<kM, kN>, kPrecision>> result;
  KILN_UNROLL for (int r = 0; r < result.kRegisters; ++r) result.registers[r] = dot_sum_t<T>{};
  return result;
}

/// What the operands of a dot must be, and the shape of their product.
template <typename A, typename B>
struct ProductShape {
  using TA = typename A::value_type;
  using TB = typename B::value_type;
  using SA = typename A::shape;
  using SB = typename B::shape;
  static_assert(SA::kRank == 2 && SB::kRank == 2, "dot: operands are two-dimensional");
  static_assert(SA::kColumns == SB::kRows, "dot: a's columns are as many as b's rows");
  static_assert(SA::kRows >= 16 && SB::kColumns >= 16 && SA::kColumns >= (sizeof(TA) == 1 ? 32 : 16),
                "dot: extents are 16 or more, and K is 32 or more for types of one byte");
  static_assert(is_same<TA, TB> || (sizeof(TA) == 1 && sizeof(TB) == 1 && Floating<TA> == Floating<TB>),
                "dot: the operands have one type; fp8e4m3 and fp8e5m2 may meet, and int8 and uint8");
  static_assert((Floating<TA> || sizeof(TA) == 1) && !is_same<TA, bool> && !is_same<TB, bool>,
                "dot: operands are f64, f32, f16, bf16, fp8, int8 or uint8");
  using type = Shape<SA::kRows, SB::kColumns>;
};
template <typename A, typename B>
using product_shape_t = typename ProductShape<A, B>::type;

/// The tile of a dot's sums.
template <typename A, typename B, DotPrecision kPrecision>
using dot_sums_t = Tile<dot_sum_t<typename A::value_type>, product_shape_t<A, B>,
                        accumulator_layout_t<typename A::value_type, product_shape_t<A, B>, kPrecision>>;

/// acc + a @ b: a [M, K], b [K, N], acc [M, N], from dot_accumulator of the operands' type and the same precision; any
/// other tile of that shape and type changes its layout first, which on the GPU costs a trip through shared memory.
/// Operands are values, or what a pipeline hands to its body. Types: f64, f32, f16, bf16, i8, u8 (both the same, but
/// i8 and u8 may meet), fp8e4m3 and fp8e5m2 (which may meet). Products of integers are exact and sums wrap; those of
/// narrow floats are exact and are summed in float. Extents are powers of two of 16 or more, K of 32 or more for
/// 1-byte types. On the GPU operands that are values go through shared memory and take 48 KiB together at most.
///
/// kMaxNumImpreciseAcc (Triton's max_num_imprecise_acc) is about fp8 on sm_90a, whose tensor cores sum in fewer bits
/// than float has: sums of so many elements of K, a power of two of 32 or more, go to acc by ordinary additions. More
/// than K, as by default: acc is summed in the tensor cores. Means nothing elsewhere.
template <DotPrecision kPrecision = DotPrecision::ieee, int kMaxNumImpreciseAcc = kAllImpreciseAcc, typename A,
          typename B, ValueTile Acc>
KILN_DEVICE auto dot(A&& a, const B& b, const Acc& acc) {
  using TileA = remove_cvref_t<A>;
  static_assert(is_same<typename Acc::shape, product_shape_t<TileA, B>>,
                "dot: the accumulator has a's rows and b's columns");
  using Sums = dot_sums_t<TileA, B, kPrecision>;
  static_assert(is_same<typename Acc::value_type, typename Sums::value_type>,
                "dot: the accumulator is of dot_sum_t of the operands' type");
  if constexpr (is_same<values_t<Acc>, values_t<Sums>>)
    return dot_tile<kPrecision, kMaxNumImpreciseAcc, !is_lvalue_reference<A>>(a, b, acc);
  else
    return dot_tile<kPrecision, kMaxNumImpreciseAcc, !is_lvalue_reference<A>>(
        a, b, broadcast_to_shape<typename Acc::shape, typename values_t<Sums>::layout>(to_values(acc)));
}
/// a @ b alone, which saves setting sums to zero.
template <DotPrecision kPrecision = DotPrecision::ieee, int kMaxNumImpreciseAcc = kAllImpreciseAcc, typename A,
          typename B>
KILN_DEVICE auto dot(A&& a, const B& b) {
  return dot_tile_alone<kPrecision, kMaxNumImpreciseAcc, !is_lvalue_reference<A>,
                        dot_sums_t<remove_cvref_t<A>, B, kPrecision>>(a, b);
}

/// A dot's sums, complete. Whoever reads sums waits for all products that were begun; this waits for those of `sums`
/// alone, where kLater dots were begun behind theirs (Gluon's warpgroup_mma_wait). `computed`: tiles of 32 bits that
/// are to be there first, computed while the products go on, which the GPU's compiler would otherwise leave for later.
/// Sums of float in full precision (DotPrecision::ieee) that are stored as they are multiply faster with it.
///
///     const auto scores = tl::dot(q, k);
///     acc = tl::dot(p, v, acc);
///     const auto x = tl::dot_wait<1>(scores);  // while p @ v goes on
template <int kLater = 0, ValueTile Sums, ValueTile... Computed>
KILN_DEVICE auto dot_wait(const Sums& sums, const Computed&... computed) {
  return wait_for_products<kLater>(sums, computed...);
}

/// An operand of dots to come, which then find it in the GPU's shared memory instead of putting it there each time: the
/// queries of attention, in front of the loop over keys. `make` returns a value, or, which needs no registers, a
/// deferred_load. It is a lambda because each has a place of its own (of 48 KiB that a kernel has for them; one may be
/// larger), which running it again overwrites:
///
///     const auto q_tile = tl::dot_operand([&] { return tl::deferred_load(q + offsets, mask); });
///
/// kIsLarge: it goes where the larger one would, whatever its size, to leave room for others.
template <bool kIsLarge = false, typename Make>
KILN_DEVICE auto dot_operand(Make make) {
  return operand_tile<kIsLarge, false>(make);
}

/// A dot_operand that is read in the pipeline that comes next, and nowhere else: that one begins its own loads before
/// it waits for this.
template <bool kIsLarge = false, typename Make>
KILN_DEVICE auto pipeline_operand(Make make) {
  return operand_tile<kIsLarge, true>(make);
}

/// A pipeline's tile as values that become, cast, scaled or catenated along their columns, the first operand of a dot:
/// on warpgroups they lie in the registers from which that is taken, and nothing of it moves. Numbers for its rows,
/// [M, 1], that are read so meet them there. Elsewhere the values of any other operation.
///
///     const auto bytes = tl::operand_values(packed_tile);
///     acc = tl::dot(tl::cast<T>(bytes & 15) * tl::operand_values(scale_tile), x_tile, acc);
template <PipelineTile X>
KILN_DEVICE auto operand_values(const X& x) {
  return operand_values_of(x);
}

/// The elements at `pointers` (of acc's shape, or broadcast to it, as a bias), in acc's layout; `other` where the mask
/// is false, which is then not read. The mask is symbolic or a bool.
template <ValueTile Acc, AddressTile P, typename M, Number O>
KILN_DEVICE auto load_like(const Acc&, const P& pointers, const M& mask, O other) {
  static_assert(AffineTile<decltype(pointers.offsets)> && !ValueTile<M>,
                "load_like: symbolic addresses, and a mask that is symbolic or a bool");
  using Pointers = typename AccessShape<P, M>::type;
  static_assert(is_same<broadcast_shape_t<Pointers, typename Acc::shape>, typename Acc::shape>,
                "load_like: the addresses broadcast to the accumulator's shape");
  using T = pointee_t<P>;
  return load_in_layout<T, Pointers, values_t<Acc>>(pointers.data, pointers.offsets, mask_for<Pointers>(mask),
                                                    cast<T>(other));
}
template <ValueTile Acc, AddressTile P, typename M>
KILN_DEVICE auto load_like(const Acc& acc, const P& pointers, const M& mask) {
  return load_like(acc, pointers, mask, pointee_t<P>{});
}
template <ValueTile Acc, AddressTile P>
KILN_DEVICE auto load_like(const Acc& acc, const P& pointers) {
  return load_like(acc, pointers, true, pointee_t<P>{});
}

}  // namespace kiln::tl
