#pragma once

#include "compiler/tl/cuda/access.hpp"
#include "compiler/tl/separable_arithmetic.hpp"

namespace kiln::tl {

/// The rows (kAxis = 0) or columns in which a thread's packets begin, one to a register.
template <typename S, int kAxis, int kPacketElements>
struct PacketLines {
  using L = Blocked<S>;
  static constexpr int kRegisters = L::kRegisters / kPacketElements;

  KILN_DEVICE static int row(int r) { return L::row(r * kPacketElements); }
  KILN_DEVICE static int column(int r) { return L::column(r * kPacketElements); }
  KILN_DEVICE static bool owns(int) { return true; }
};

/// What an axis adds to the offsets of a thread's packets.
template <typename S, int kAxis, int kPacketElements, typename Axis>
KILN_DEVICE auto packet_offsets(const Axis& axis) {
  using L = PacketLines<S, kAxis, kPacketElements>;
  using Lines = conditional_t<kAxis == 0, Shape<S::kRows, 1>, Shape<1, S::kColumns>>;
  if constexpr (is_tile<Axis>) {
    return redistribute<Lines, L>(axis);
  } else {
    Tile<int64_t, Lines, L> result;
    KILN_UNROLL for (int i = 0; i < L::kRegisters; ++i) result.registers[i] =
        axis.at(kAxis == 0 ? L::row(i) : L::column(i));
    return result;
  }
}

/// What a thread holds of a tile at separable addresses: packets of neighbours in a row, each of which moves as one
/// where it is whole and aligned, and element by element elsewhere.
template <typename T, typename S, typename X, typename M>
struct SeparableAccess {
  using L = Blocked<S>;
  using A = decltype(static_cast<const X*>(nullptr)->as_affine());
  using P = Packing<T, S, A>;
  static constexpr bool kHasPackets = P::kPossible && !is_tile<typename X::columns_type>;
  static constexpr int kElements = kHasPackets ? P::kElements : 1;
  static constexpr int kCount = L::kRegisters / kElements;

  T* addresses[kCount];    ///< of packets
  bool is_packet[kCount];  ///< whether the packet moves as one

  KILN_DEVICE SeparableAccess(T* data, const X& offsets, const M& mask) {
    const auto rows = packet_offsets<S, 0, kElements>(offsets.rows);
    const auto columns = packet_offsets<S, 1, kElements>(offsets.columns);
    KILN_UNROLL for (int i = 0; i < kCount; ++i) {
      const int r = i * kElements, row = L::row(r), column = L::column(r);
      addresses[i] = data + (offsets.affine.at(row, column) + rows.registers[i] + columns.registers[i]);
      is_packet[i] = kHasPackets && is_wanted(mask, r) && reinterpret_cast<uint64_t>(addresses[i]) % P::kBytes == 0;
      if constexpr (kHasPackets && !is_same<typename X::columns_type, NoAxis>)
        is_packet[i] &= offsets.columns.at(column + kElements - 1) == columns.registers[i] + kElements - 1;
    }
  }

  /// Whether the mask holds for all of a packet: what lies between two elements that a symbolic mask holds for, it
  /// holds for too.
  KILN_DEVICE static bool is_wanted(const M& mask, int r) {
    const int row = L::row(r), column = L::column(r), last = kElements - 1;
    bool wanted = mask.at(row, column, r) && mask.at(row, column + last, r + last);
    if constexpr (is_tile_mask<M>) {
      KILN_UNROLL for (int i = 1; i < last; ++i) wanted &= mask.at(row, column + i, r + i);
    }
    return wanted;
  }
  /// element(wanted, address, r) for all elements that no packet moves.
  template <typename F>
  KILN_DEVICE void for_each_single(const X& offsets, const M& mask, F element) const {
    KILN_UNROLL for (int r = 0; r < L::kRegisters; ++r) {
      const int row = L::row(r), column = L::column(r), first = L::column(r / kElements * kElements);
      int64_t from_first = (column - first) * static_cast<int64_t>(offsets.affine.column_stride);
      if constexpr (kElements > 1) from_first += offsets.columns.at(column) - offsets.columns.at(first);
      element(!is_packet[r / kElements] && mask.at(row, column, r), addresses[r / kElements] + from_first, r);
    }
  }
  KILN_DEVICE bool all_packets() const {
    bool all = true;
    KILN_UNROLL for (int i = 0; i < kCount; ++i) all &= is_packet[i];
    return all;
  }
};

template <Number T, typename S, SeparableTile X, typename M>
KILN_DEVICE Tile<T, S> load_separable(const T* data, const X& offsets, const M& mask, T other) {
  if constexpr (X::kMayBeAffine) {
    if (__builtin_expect(offsets.is_affine(), 1)) return load_affine<T, S>(data, offsets.as_affine(), mask, other);
  }
  using Access = SeparableAccess<const T, S, X, M>;
  const Access access(data, offsets, mask);
  Tile<T, S> result;
  if constexpr (Access::kHasPackets) {
    using Packet = typename Access::P::packet;
    KILN_UNROLL for (int i = 0; i < Access::kCount; ++i) {
      Packet packet{};
      if (access.is_packet[i]) packet = *reinterpret_cast<const Packet*>(access.addresses[i]);
      memcpy(&result.registers[i * Access::kElements], &packet, sizeof packet);
    }
    if (__builtin_expect(access.all_packets(), 1)) return result;
  }
  access.for_each_single(offsets, mask, [&](bool wanted, const T* address, int r) {
    const T rest = access.is_packet[r / Access::kElements] ? result.registers[r] : other;
    result.registers[r] = load_if(wanted, address, rest);
  });
  return result;
}

template <Number T, typename S, SeparableTile X, typename M>
KILN_DEVICE void store_separable(T* data, const X& offsets, const Tile<T, S>& values, const M& mask) {
  if constexpr (X::kMayBeAffine) {
    if (__builtin_expect(offsets.is_affine(), 1)) return store_affine<T, S>(data, offsets.as_affine(), values, mask);
  }
  using Access = SeparableAccess<T, S, X, M>;
  const Access access(data, offsets, mask);
  if constexpr (Access::kHasPackets) {
    using Packet = typename Access::P::packet;
    KILN_UNROLL for (int i = 0; i < Access::kCount; ++i) {
      Packet packet;
      memcpy(&packet, &values.registers[i * Access::kElements], sizeof packet);
      if (access.is_packet[i]) *reinterpret_cast<Packet*>(access.addresses[i]) = packet;
    }
    if (__builtin_expect(access.all_packets(), 1)) return;
  }
  access.for_each_single(offsets, mask, [&](bool wanted, T* address, int r) {
    store_if(Access::L::owns(r) && wanted, address, values.registers[r]);
  });
}

}  // namespace kiln::tl
