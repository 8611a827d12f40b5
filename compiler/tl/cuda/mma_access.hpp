#pragma once

#include "compiler/tl/cuda/access.hpp"
#include "compiler/tl/cuda/mma_layout.hpp"
#include "compiler/tl/cuda/warp_rows.hpp"

// Accumulators between registers and memory.

namespace kiln::tl {

/// Of kCount items that a lane holds, half go to the lane `lanes` away for as many of its own: afterwards the lane has
/// both lanes' items whose numbers have the bit `distance` as the lane's number has the bit `lanes`.
template <int kCount, int kWords>
KILN_DEVICE void swap_with_lane(uint32_t (&items)[kCount][kWords], int distance, int lanes) {
  const bool upper = (threadIdx.x & static_cast<unsigned int>(lanes)) != 0;
  KILN_UNROLL for (int i = 0; i < kCount; ++i) {
    if ((i & distance) != 0) continue;
    KILN_UNROLL for (int w = 0; w < kWords; ++w) {
      const uint32_t kept = upper ? items[i + distance][w] : items[i][w];
      const uint32_t given = upper ? items[i][w] : items[i + distance][w];
      const uint32_t taken = __shfl_xor_sync(0xffffffffu, given, lanes);
      items[i][w] = upper ? taken : kept;
      items[i + distance][w] = upper ? kept : taken;
    }
  }
}

/// Packets of up to 16 bytes of a row, out of the shorter units that lanes hold: kUnits neighbouring lanes swap kUnits
/// units, so that each lane gets kUnits neighbouring ones.
template <Number T, typename L>
struct UnitPackets {
  static constexpr int kSize = static_cast<int>(sizeof(T));
  static constexpr int kUnitBytes = L::kUnit * kSize;
  static constexpr int kUnits = larger(1, smaller(smaller(16 / kUnitBytes, L::kUnitLanes), L::kUnits));
  static constexpr int kElements = smaller(kUnits * L::kUnit, 16 / kSize);
  static constexpr int kBytes = kElements * kSize;
  static constexpr bool kPossible = kUnitBytes >= 4 && kUnitBytes <= 16 && L::kUnits % kUnits == 0;
  static constexpr int kUnitWords = kUnitBytes / 4;
  using Packet = typename PacketOf<kBytes>::type;

  T elements[kElements];

  /// Units unit ... unit + kUnits - 1 of a row.
  KILN_DEVICE UnitPackets(const T* registers, int row_part, int unit) {
    uint32_t words[kUnits][kUnitWords];
    KILN_UNROLL for (int u = 0; u < kUnits; ++u) {
      T values[L::kUnit];
      KILN_UNROLL for (int i = 0; i < L::kUnit; ++i) values[i] = registers[L::unit_register(row_part, unit + u, i)];
      memcpy(words[u], values, kUnitBytes);
    }
    KILN_UNROLL for (int distance = 1; distance < kUnits; distance *= 2) swap_with_lane(words, distance, distance);
    memcpy(elements, words, kBytes);
  }
  /// The calling lane's first column after the swap, from where its first column was of unit `unit`.
  KILN_DEVICE static int column(int column_before) {
    const int lane = static_cast<int>(threadIdx.x) % kUnits;
    return column_before + lane * (L::kUnitPitch - L::kUnit);
  }
};

/// Sums of products of f32 whose rows start off packets: lanes swap the four columns that each has of a row for one
/// column of four rows, so that a warp's instruction writes a row's neighbouring elements. Each lane's four in as many
/// instructions write a quarter of every sector that they meet (8193x24 by 24x909: 57 us on an H200).
template <Number T, typename S, AffineTile A, typename M>
KILN_DEVICE void store_dealt_rows(T* first, const A& offsets, const Tile<T, S, FmaLayout<S>>& values, const M& mask) {
  using L = FmaLayout<S>;
  const int place = L::lane_row() % 4;
  KILN_UNROLL for (int row_part = 0; row_part < L::kRowParts; ++row_part) {
    KILN_UNROLL for (int unit = 0; unit < L::kUnits; ++unit) {
      const int first_register = L::unit_register(row_part, unit, 0);
      uint32_t words[4][1];
      memcpy(words, values.registers + first_register, sizeof words);
      swap_with_lane(words, 1, L::kRowLaneBits[0]);
      swap_with_lane(words, 2, L::kRowLaneBits[1]);
      const int column = L::column(first_register) + place;
      KILN_UNROLL for (int i = 0; i < 4; ++i) {
        const int row = L::row(first_register) + 4 * (i - place);
        store_if(L::owns(0) && mask.at(row, column, 0), first + offset_of(offsets, row, column),
                 __builtin_bit_cast(T, words[i][0]));
      }
    }
  }
}
template <Number T, typename L>
inline constexpr bool kDealsRows = false;
template <Number T, typename S>
inline constexpr bool kDealsRows<T, FmaLayout<S>> = sizeof(T) == 4 && FmaLayout<S>::kAllLanes;

/// Whether a tile goes to memory by way of shared memory.
template <Number T, typename S, typename L>
inline constexpr bool kStoresWarpRows = false;
template <Number T, typename S>
inline constexpr bool kStoresWarpRows<T, S, WgmmaLayout<S>> = WarpRows<T, S>::kPossible;

template <Number T, typename S, AffineTile A, typename L, typename M>
  requires(kIsAccumulatorLayout<L>)
KILN_DEVICE void store_affine(T* data, const A& offsets, const Tile<T, S, L>& values, const M& mask) {
  using P = UnitPackets<T, L>;
  T* const first = data + offsets.base;
  const auto store_one = [&](int row, int column, T value) {
    store_if(L::owns(0) && mask.at(row, column, 0), first + offset_of(offsets, row, column), value);
  };
  constexpr bool kContiguous = is_same<typename A::column_stride_type, Constant<1>>;
  if constexpr (kContiguous && kStoresWarpRows<T, S, L>) {
    store_warp_rows<T, S>(data, offsets, values, mask);
  } else if constexpr (kContiguous && P::kPossible) {
    const uint64_t row_bytes = static_cast<uint64_t>(static_cast<int64_t>(offsets.row_stride)) * sizeof(T);
    const bool aligned = ((reinterpret_cast<uint64_t>(first) | row_bytes) & (P::kBytes - 1)) == 0;
    if constexpr (kDealsRows<T, L>) {
      if (!aligned) return store_dealt_rows(first, offsets, values, mask);
    }
    const bool whole = aligned && mask.all() && L::owns(0);
    KILN_UNROLL for (int row_part = 0; row_part < L::kRowParts; ++row_part) {
      const int row = L::row(L::unit_register(row_part, 0, 0));
      KILN_UNROLL for (int unit = 0; unit < L::kUnits; unit += P::kUnits) {
        const P packet(values.registers, row_part, unit);
        const int column = P::column(L::column(L::unit_register(row_part, unit, 0)));
        // What lies between two elements that a symbolic mask holds for, it holds for too.
        if (whole || (aligned && L::owns(0) && mask.at(row, column, 0) && mask.at(row, column + P::kElements - 1, 0))) {
          typename P::Packet bits;
          memcpy(&bits, packet.elements, sizeof bits);
          T* const to = first + offset_of(offsets, row, column);
          if constexpr (P::kBytes == 16)
            store_quad(to, bits);
          else
            *reinterpret_cast<typename P::Packet*>(to) = bits;
        } else {
          KILN_UNROLL for (int i = 0; i < P::kElements; ++i) store_one(row, column + i, packet.elements[i]);
        }
      }
    }
  } else {
    KILN_UNROLL for (int r = 0; r < L::kRegisters; ++r) store_one(L::row(r), L::column(r), values.registers[r]);
  }
}

/// The elements of a tile of PointersShape, which broadcasts to Acc's shape, in Acc's layout.
template <Number T, typename PointersShape, ValueTile Acc, AffineTile A, typename M>
KILN_DEVICE auto load_in_layout(const T* data, const A& offsets, const M& mask, T other) {
  using L = typename Acc::layout;
  constexpr bool kOneRow = PointersShape::kRows == 1, kOneColumn = PointersShape::kColumns == 1;
  Tile<T, typename Acc::shape, L> result;
  const T* const first = data + offsets.base;
  const bool whole = mask.all();
  KILN_UNROLL for (int r = 0; r < L::kRegisters; ++r) {
    const int same = kOneRow && kOneColumn ? 0 : kOneRow ? L::same_column(r) : kOneColumn ? L::same_row(r) : r;
    if (same != r) {
      result.registers[r] = result.registers[same];
    } else {
      const int row = kOneRow ? 0 : L::row(r), column = kOneColumn ? 0 : L::column(r);
      result.registers[r] = load_if(whole || mask.at(row, column, 0), first + offset_of(offsets, row, column), other);
    }
  }
  return result;
}

}  // namespace kiln::tl
