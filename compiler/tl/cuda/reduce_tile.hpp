#pragma once

#include "compiler/tl/cuda/program.hpp"
#include "compiler/tl/cuda/wgmma_layout.hpp"
#include "compiler/tl/math.hpp"
#include "compiler/tl/tuple.hpp"

namespace kiln::tl {

inline constexpr unsigned int kAllLanes = 0xffffffffu;

/// How the rows of a tile lie in the threads of a program. Elements are dealt row-major, so kThreadsPerRow neighbouring
/// threads hold a row's run of the tile; where a row needs more threads than there are, it takes kRunsPerRow runs of
/// every thread.
template <typename ShapeT>
struct RowMap {
  using L = Blocked<ShapeT>;
  static constexpr int kThreadsPerRow = smaller(ShapeT::kColumns / L::kVector, kNumThreads);
  static constexpr int kRunsPerRow = larger(1, ShapeT::kColumns / (L::kVector * kNumThreads));
  /// Neighbouring registers of a thread that lie in one row, and such groups of a thread.
  static constexpr int kHeld = kRunsPerRow * L::kVector;
  static constexpr int kGroups = L::kRegisters / kHeld;
  /// Threads that hold different elements; in a tile smaller than the program the others repeat them.
  static constexpr int kDistinctThreads = smaller(ShapeT::kNumel, kNumThreads);
};

/// shuffle(number) of each part, in the 32 or 64 bits that lanes can exchange.
template <typename E, typename F>
KILN_DEVICE E exchange(const E& element, F shuffle) {
  return map_parts(
      [shuffle](auto part) {
        using T = decltype(part);
        if constexpr (NumberTraits<T>::kIsNarrowFloat)
          return T::of_bits(static_cast<decltype(part.bits)>(shuffle(static_cast<uint32_t>(part.bits))));
        else if constexpr (sizeof(T) < 4)
          return static_cast<T>(shuffle(static_cast<int32_t>(part)));
        else
          return shuffle(part);
      },
      element);
}

/// Combines lanes whose numbers differ only in the bits from kFrom up to below kTo; all of them get the result.
template <int kFrom, int kTo, typename E, typename F>
KILN_DEVICE E reduce_lanes(E value, F combine) {
  KILN_UNROLL for (int offset = kFrom; offset < kTo; offset *= 2) value =
      combine(value, exchange(value, [offset](auto x) { return __shfl_xor_sync(kAllLanes, x, offset); }));
  if constexpr (kFrom < kTo && !Symmetric<F>) {
    const int source = static_cast<int>(threadIdx.x) % 32 & ~(kTo - kFrom);
    value = exchange(value, [source](auto x) { return __shfl_sync(kAllLanes, x, source); });
  }
  return value;
}

/// Combines kCount registers, kStep apart from `first` on: many in four chains, as one alone would wait for each
/// result.
template <int kCount, int kStep, int kLongest = kCount / 4, typename Tiles, typename F>
KILN_DEVICE auto reduce_registers(const Tiles& tiles, int first, F combine) {
  if constexpr (kCount > 8 && kCount > kLongest) {
    return combine(reduce_registers<kCount / 2, kStep, kLongest>(tiles, first, combine),
                   reduce_registers<kCount / 2, kStep, kLongest>(tiles, first + kCount / 2 * kStep, combine));
  } else {
    auto total = element_of(tiles, first);
    KILN_UNROLL for (int i = 1; i < kCount; ++i) total = combine(total, element_of(tiles, first + i * kStep));
    return total;
  }
}

/// Shared memory for kCount elements, the same at every call: a barrier must stand before it is written.
template <typename E, int kCount>
KILN_DEVICE E* shared_scratch() {
  __shared__ E scratch[kCount];
  return scratch;
}
inline constexpr int kScratchBytes = 16 * 1024;

/// Combines each place's values over warps first_warp, first_warp + kStride, ..., kCount of them, in that order. Of a
/// warp's values kLanes are different: lane l holds value l / kLaneStep % kLanes. The places from kFirst on share two
/// barriers, as many as fit the scratch.
template <int kLanes, int kCount, int kStride, int kLaneStep = 1, int kFirst = 0, int kPlaces, typename E, typename F>
KILN_DEVICE void reduce_warps(E (&values)[kPlaces], int first_warp, F combine) {
  constexpr int kPitch = kNumWarps * kLanes;
  constexpr int kTogether = smaller(kPlaces, larger(1, kScratchBytes / static_cast<int>(kPitch * sizeof(E))));
  constexpr int kEnd = smaller(kPlaces, kFirst + kTogether);
  E* const scratch = shared_scratch<E, kTogether * kPitch>();
  const int lane = static_cast<int>(threadIdx.x) % 32;
  sync_threads();
  if (lane % kLaneStep == 0 && lane / kLaneStep < kLanes) {
    E* const own = scratch + static_cast<int>(threadIdx.x) / 32 * kLanes + lane / kLaneStep;
    KILN_UNROLL for (int i = kFirst; i < kEnd; ++i) own[(i - kFirst) * kPitch] = values[i];
  }
  sync_threads();
  const E* const first = scratch + first_warp * kLanes + lane / kLaneStep % kLanes;
  KILN_UNROLL for (int i = kFirst; i < kEnd; ++i) {
    E total = first[(i - kFirst) * kPitch];
    KILN_UNROLL for (int k = 1; k < kCount; ++k) total =
        combine(total, first[(i - kFirst) * kPitch + k * kStride * kLanes]);
    values[i] = total;
  }
  if constexpr (kEnd < kPlaces) reduce_warps<kLanes, kCount, kStride, kLaneStep, kEnd>(values, first_warp, combine);
}

/// Every row combined; `values` gets the results of the rows that the calling thread has a part of.
template <typename ShapeT, typename Tiles, typename E, typename F>
KILN_DEVICE void reduce_rows(const Tiles& tiles, E (&values)[RowMap<ShapeT>::kGroups], F combine) {
  using Rows = RowMap<ShapeT>;
  KILN_UNROLL for (int group = 0; group < Rows::kGroups; ++group) values[group] =
      reduce_lanes<1, smaller(Rows::kThreadsPerRow, 32)>(
          reduce_registers<Rows::kHeld, 1>(tiles, group * Rows::kHeld, combine), combine);
  if constexpr (Rows::kThreadsPerRow > 32) {
    constexpr int kWarpsPerRow = Rows::kThreadsPerRow / 32;
    const int warp = static_cast<int>(threadIdx.x) / 32;
    reduce_warps<1, kWarpsPerRow, 1>(values, warp / kWarpsPerRow * kWarpsPerRow, combine);
  }
}

/// Every column combined; `values` gets the results of the columns that the calling thread has a part of.
template <typename ShapeT, typename Tiles, typename E, typename F>
KILN_DEVICE void reduce_columns(const Tiles& tiles, E (&values)[RowMap<ShapeT>::kHeld], F combine) {
  using Rows = RowMap<ShapeT>;
  KILN_UNROLL for (int column = 0; column < Rows::kHeld; ++column) values[column] =
      reduce_lanes<Rows::kThreadsPerRow, smaller(Rows::kDistinctThreads, 32)>(
          reduce_registers<Rows::kGroups, Rows::kHeld>(tiles, column, combine), combine);
  constexpr int kStride = larger(1, Rows::kThreadsPerRow / 32);
  constexpr int kCount = Rows::kDistinctThreads / 32 / kStride;
  if constexpr (kCount > 1)
    reduce_warps<smaller(Rows::kThreadsPerRow, 32), kCount, kStride>(
        values, static_cast<int>(threadIdx.x) / 32 % kStride, combine);
}

template <typename Tiles, typename F>
KILN_DEVICE auto reduce_all(const Tiles& tiles, F combine) {
  element_of_t<Tiles> values[1];
  reduce_rows<Shape<shape_of_t<Tiles>::kNumel>>(tiles, values, combine);
  return values[0];
}

template <int kAxis, typename Tiles, typename F>
KILN_DEVICE auto reduce_axis_of_blocked(const Tiles& tiles, F combine) {
  using S = shape_of_t<Tiles>;
  using Rows = RowMap<S>;
  auto result = unset_tiles<Shape<kAxis == 1 ? S::kRows : S::kColumns>, Slice<kAxis, S>>(tiles);
  constexpr int kPlaces = kAxis == 1 ? Rows::kGroups : Rows::kHeld;
  element_of_t<Tiles> values[kPlaces];
  if constexpr (kAxis == 1)
    reduce_rows<S>(tiles, values, combine);
  else
    reduce_columns<S>(tiles, values, combine);
  KILN_UNROLL for (int r = 0; r < Rows::L::kRegisters; ++r)
      set_element(result, r, values[kAxis == 1 ? r / Rows::kHeld : r % Rows::kHeld]);
  return result;
}

template <Number T, typename S>
inline constexpr bool kReducesInPlace<1, Tile<T, S, WgmmaLayout<S>>> = true;
template <Number T, typename S, int kElementBytes>
inline constexpr bool kReducesInPlace<1, Tile<T, S, MmaLayout<S, kElementBytes>>> = true;

/// Rows of a product's sums: in the registers of four lanes, or of four in each of a few warps.
template <Number T, typename S, typename L, typename F>
KILN_DEVICE auto reduce_rows_of_sums(const Tile<T, S, L>& x, F combine) {
  Tile<T, Shape<S::kRows>, typename L::Rows> result;
  KILN_UNROLL for (int part = 0; part < L::kRowParts; ++part) {
    // Two chains: columns of even and of odd number.
    T even = x.registers[L::unit_register(part, 0, 0)], odd = x.registers[L::unit_register(part, 0, 1)];
    KILN_UNROLL for (int i = 2; i < L::kUnits * L::kUnit; i += 2) {
      even = combine(even, x.registers[L::unit_register(part, i / L::kUnit, i % L::kUnit)]);
      odd = combine(odd, x.registers[L::unit_register(part, i / L::kUnit, i % L::kUnit + 1)]);
    }
    result.registers[part] = reduce_lanes<1, L::kUnitLanes>(combine(even, odd), combine);
  }
  if constexpr (L::kRowSharers > 1)
    reduce_warps<8, L::kRowSharers, L::kSharerStride, L::kUnitLanes>(result.registers, L::first_sharer(), combine);
  return result;
}

/// A tile of 8 columns has two numbers of a row in each of the four lanes that share it.
template <Number T, typename S>
  requires(WgmmaLayout<S>::kRowsInLanes && S::kColumns >= 16)
struct PartialSums<Tile<T, S, WgmmaLayout<S>>> {
  static constexpr bool kPossible = true;
  using shape = Shape<S::kRows, 8>;
  using type = Tile<T, shape, WgmmaLayout<shape>>;
};

/// x's columns added up, each to one of fewer.
template <Number T, typename S, typename L>
KILN_DEVICE auto sum_units(const Tile<T, S, L>& x) {
  typename PartialSums<Tile<T, S, L>>::type result;
  using To = typename decltype(result)::layout;
  KILN_UNROLL for (int part = 0; part < L::kRowParts; ++part) {
    KILN_UNROLL for (int i = 0; i < L::kUnit; ++i) {
      T total = x.registers[L::unit_register(part, 0, i)];
      KILN_UNROLL for (int unit = 1; unit < L::kUnits; ++unit) total += x.registers[L::unit_register(part, unit, i)];
      result.registers[To::unit_register(part, 0, i)] = total;
    }
  }
  return result;
}

template <int kAxis, typename Tiles, typename F>
KILN_DEVICE auto reduce_axis(const Tiles& tiles, F combine) {
  if constexpr (kReducesInPlace<kAxis, Tiles>)
    return reduce_rows_of_sums(tiles, combine);
  else
    return reduce_axis_of_blocked<kAxis>(tiles, combine);
}

}  // namespace kiln::tl
