#pragma once

#include "compiler/tl/cuda/access.hpp"
#include "compiler/tl/cuda/mma_layout.hpp"
#include "compiler/tl/cuda/straddling_store.hpp"
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
  KILN_DEVICE Packet bits() const {
    Packet bits;
    memcpy(&bits, elements, kBytes);
    return bits;
  }
  /// The calling lane's first column after the swap, from where its first column was of unit `unit`.
  KILN_DEVICE static int column(int column_before) {
    const int lane = static_cast<int>(threadIdx.x) % kUnits;
    return column_before + lane * (L::kUnitPitch - L::kUnit);
  }

  /// The packets of a row of lanes after the swap, in the order of their columns: the place of the calling lane's, and
  /// the lane that has the one at `place`.
  static constexpr int kPlaces = L::kRowOfLanes, kPlacesPerUnit = kPlaces / kUnits;
  KILN_DEVICE static int place() { return L::unit_lane() % kUnits * kPlacesPerUnit + L::unit_lane() / kUnits; }
  KILN_DEVICE static int lane_at(int place) {
    return L::lane_of_unit(place / kPlacesPerUnit + place % kPlacesPerUnit * kUnits);
  }
};

/// Where `wanted`, all of row part `row_part` of a tile, at `row_start` in memory, off multiples of 16 bytes: whole
/// packets of memory, each out of the two packets that it straddles, and by the lanes at the row's ends what is left
/// there. Elements one by one were the alternative: a warp's instruction then writes a part of each sector that it
/// meets (products of few f32 with 32,769 columns took 2.3 times as long).
template <Number T, typename L>
KILN_DEVICE void store_straddling_row(const T* registers, int row_part, T* row_start, bool wanted) {
  using P = UnitPackets<T, L>;
  const int place = P::place(), next_lane = P::lane_at((place + 1) % P::kPlaces);
  const auto packet_of = [&](int unit) { return P(registers, row_part, unit).bits(); };
  const auto column_of = [&](int unit) { return P::column(L::column(L::unit_register(row_part, unit, 0))); };
  constexpr int kLastUnit = L::kUnits - P::kUnits;
  const int head = elements_before_packet(row_start + column_of(0));
  const uint4 first = packet_of(0);
  uint4 own = first;
  KILN_UNROLL for (int unit = 0; unit < L::kUnits; unit += P::kUnits) {
    const uint4 later = unit == kLastUnit ? own : packet_of(unit + P::kUnits);
    const uint4 given = place == 0 ? later : own;
    const auto from_next = [&](unsigned int word) { return __shfl_sync(0xffffffffu, word, next_lane); };
    const uint4 next = {from_next(given.x), from_next(given.y), from_next(given.z), from_next(given.w)};
    if (wanted && (head == 0 || unit != kLastUnit || place + 1 < P::kPlaces))
      store_quad(row_start + column_of(unit) + head,
                 straddled<sizeof(T)>(own, next, head * static_cast<int>(sizeof(T))));
    own = later;
  }
  const bool is_first = place == 0, is_last = place + 1 == P::kPlaces;
  if (wanted && head != 0 && (is_first || is_last)) {
    T elements[2][P::kElements];
    memcpy(elements[0], &first, 16);
    memcpy(elements[1], &own, 16);
    KILN_UNROLL for (int i = 0; i < P::kElements; ++i) {
      if (i < head ? is_first : is_last)
        row_start[column_of(i < head ? 0 : kLastUnit) + i] = i < head ? elements[0][i] : elements[1][i];
    }
  }
}

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
    const bool whole = aligned && mask.all();
    KILN_UNROLL for (int row_part = 0; row_part < L::kRowParts; ++row_part) {
      const int row = L::row(L::unit_register(row_part, 0, 0));
      if constexpr (P::kBytes == 16) {
        const int begin = L::column(L::unit_register(row_part, 0, 0)) - L::unit_lane() * L::kUnit;
        const int last = begin + L::kUnits * L::kUnitPitch - 1;
        const bool all = mask.at(row, begin, 0) && mask.at(row, last, 0);
        if (!aligned && __all_sync(0xffffffffu, all || !mask.touches(row, begin, last))) {
          store_straddling_row<T, L>(values.registers, row_part, first + offset_of(offsets, row, 0), all && L::owns(0));
          continue;
        }
      }
      KILN_UNROLL for (int unit = 0; unit < L::kUnits; unit += P::kUnits) {
        const P packet(values.registers, row_part, unit);
        const int column = P::column(L::column(L::unit_register(row_part, unit, 0)));
        // What lies between two elements that a symbolic mask holds for, it holds for too.
        if (L::owns(0) &&
            (whole || (aligned && mask.at(row, column, 0) && mask.at(row, column + P::kElements - 1, 0)))) {
          T* const to = first + offset_of(offsets, row, column);
          if constexpr (P::kBytes == 16)
            store_quad(to, packet.bits());
          else
            *reinterpret_cast<typename P::Packet*>(to) = packet.bits();
        } else if constexpr (P::kBytes == 16) {
          if (L::owns(0))
            store_elements(first + offset_of(offsets, row, column), packet.bits(),
                           [&](int i) { return mask.at(row, column + i, 0); });
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
