#pragma once

#include "compiler/tl/cuda/access.hpp"
#include "compiler/tl/cuda/mma_layout.hpp"
#include "compiler/tl/cuda/warp_rows.hpp"

// Accumulators between registers and memory.

namespace kiln::tl {

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
    KILN_UNROLL for (int distance = 1; distance < kUnits; distance *= 2) {
      const bool upper = (threadIdx.x & static_cast<unsigned int>(distance)) != 0;
      KILN_UNROLL for (int u = 0; u < kUnits; ++u) {
        if ((u & distance) == 0) {
          KILN_UNROLL for (int w = 0; w < kUnitWords; ++w) {
            const uint32_t kept = upper ? words[u + distance][w] : words[u][w];
            const uint32_t given = upper ? words[u][w] : words[u + distance][w];
            const uint32_t taken = __shfl_xor_sync(0xffffffffu, given, distance);
            words[u][w] = upper ? taken : kept;
            words[u + distance][w] = upper ? kept : taken;
          }
        }
      }
    }
    memcpy(elements, words, kBytes);
  }
  /// The calling lane's first column after the swap, from where its first column was of unit `unit`.
  KILN_DEVICE static int column(int column_before) {
    const int lane = static_cast<int>(threadIdx.x) % kUnits;
    return column_before + lane * (L::kUnitPitch - L::kUnit);
  }
};

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
    const int same = kOneRow ? L::same_column(r) : kOneColumn ? L::same_row(r) : r;
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
