#pragma once

#include "compiler/tl/cuda/access.hpp"
#include "compiler/tl/cuda/arrangement_layout.hpp"

// Tiles in the layouts of arrangement_layout.hpp between registers and memory: each run as packets of up to 16 bytes.

namespace kiln::tl {

template <Number T, typename L>
struct RunPackets {
  static constexpr int kElements = smaller(kRunOf<L>, 16 / static_cast<int>(sizeof(T)));
  static constexpr int kBytes = kElements * static_cast<int>(sizeof(T));
  using Packet = typename PacketOf<kBytes>::type;

  template <AffineTile A>
  KILN_DEVICE static bool aligned(const T* first, const A& offsets) {
    const uint64_t row_bytes = static_cast<uint64_t>(static_cast<int64_t>(offsets.row_stride)) * sizeof(T);
    return ((reinterpret_cast<uint64_t>(first) | row_bytes) & (kBytes - 1)) == 0;
  }
  /// What lies between two elements that a symbolic mask holds for, it holds for too.
  template <typename M>
  KILN_DEVICE static bool holds(const M& mask, int row, int column) {
    return mask.at(row, column, 0) && mask.at(row, column + kElements - 1, 0);
  }
};

template <Number T, typename S, AffineTile A, typename L, typename M>
  requires(kIsArranged<L>)
KILN_DEVICE void store_affine(T* data, const A& offsets, const Tile<T, S, L>& values, const M& mask) {
  using P = RunPackets<T, L>;
  constexpr bool kContiguous = is_same<typename A::column_stride_type, Constant<1>>;
  T* const first = data + offsets.base;
  const bool aligned = kContiguous && P::aligned(first, offsets);
  const bool whole = aligned && mask.all();
  KILN_UNROLL for (int r = 0; r < L::kRegisters; r += P::kElements) {
    const int row = L::row(r), column = L::column(r);
    const bool owned = L::owns(r);
    if (kContiguous && P::kElements > 1 && owned && (whole || (aligned && P::holds(mask, row, column)))) {
      typename P::Packet packet;
      memcpy(&packet, &values.registers[r], sizeof packet);
      *reinterpret_cast<typename P::Packet*>(first + offset_of(offsets, row, column)) = packet;
    } else {
      KILN_UNROLL for (int i = 0; i < P::kElements; ++i) store_if(
          owned && mask.at(row, column + i, 0), first + offset_of(offsets, row, column + i), values.registers[r + i]);
    }
  }
}

/// The elements of a tile of PointersShape, which broadcasts to Acc's shape, in Acc's layout.
template <Number T, typename PointersShape, ValueTile Acc, AffineTile A, typename M>
  requires(kIsArranged<typename Acc::layout>)
KILN_DEVICE auto load_in_layout(const T* data, const A& offsets, const M& mask, T other) {
  using L = typename Acc::layout;
  using P = RunPackets<T, L>;
  constexpr bool kOneRow = PointersShape::kRows == 1, kOneColumn = PointersShape::kColumns == 1;
  constexpr bool kContiguous = is_same<typename A::column_stride_type, Constant<1>> && !kOneColumn;
  Tile<T, typename Acc::shape, L> result;
  const T* const first = data + offsets.base;
  const bool aligned = kContiguous && P::aligned(first, offsets);
  const bool whole = aligned && mask.all();
  KILN_UNROLL for (int r = 0; r < L::kRegisters; r += P::kElements) {
    const int row = kOneRow ? 0 : L::row(r), column = kOneColumn ? 0 : L::column(r);
    const bool owned = L::owns(r);
    if (kContiguous && P::kElements > 1 && owned && (whole || (aligned && P::holds(mask, row, column)))) {
      const auto packet = *reinterpret_cast<const typename P::Packet*>(first + offset_of(offsets, row, column));
      memcpy(&result.registers[r], &packet, sizeof packet);
    } else {
      KILN_UNROLL for (int i = 0; i < P::kElements; ++i) {
        const int place = kOneColumn ? 0 : column + i;
        result.registers[r + i] =
            load_if(owned && mask.at(row, place, 0), first + offset_of(offsets, row, place), other);
      }
    }
  }
  return result;
}
/// The same in the default layout, where nothing is broadcast.
template <Number T, typename PointersShape, ValueTile Acc, AffineTile A, typename M>
  requires(is_same<typename Acc::layout, DefaultLayout<PointersShape>>)
KILN_DEVICE auto load_in_layout(const T* data, const A& offsets, const M& mask, T other) {
  return load_affine<T, PointersShape>(data, offsets, mask, other);
}

}  // namespace kiln::tl
