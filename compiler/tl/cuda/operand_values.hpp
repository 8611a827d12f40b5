#pragma once

#include "compiler/tl/cuda/shared_tile.hpp"

namespace kiln::tl {

/// The layout of values that a dot takes its first operand from, where warpgroups have whole rows; elsewhere the
/// default one. Of one column: that of rows' numbers, which meets it.
template <typename ShapeT>
struct OperandLayout {
  using Grid = WarpgroupGrid<Shape<ShapeT::kRows, larger(16, ShapeT::kColumns)>>;
  static constexpr bool kIsOfWgmma = Grid::kFits && Grid::kColumnGroups == 1;
  using OfWgmma = conditional_t<ShapeT::kColumns == 1, Expanded<1, WgmmaRows<ShapeT::kRows>>, WgmmaLayout<ShapeT>>;
};

/// values_in_layout of lines that are rows, each of whose addresses follows from the lane's first by a constant.
template <typename L, typename T, typename S, bool kPadded, typename Step>
  requires(is_same<L, WgmmaLayout<S>> && is_power_of_two(SharedTile<T, S, true, kPadded, Step>::kChunksPerLine))
KILN_DEVICE Tile<T, S, L> values_in_layout(const SharedTile<T, S, true, kPadded, Step>& x) {
  using Shared = SharedTile<T, S, true, kPadded, Step>;
  constexpr int kSize = static_cast<int>(sizeof(T)), kPerChunk = Shared::kPerChunk;
  const int row = L::lane_row(), column = L::lane_column();
  const uint32_t lane_address =
      x.address + Shared::Places::offset(static_cast<unsigned int>(row * Shared::kChunksPerLine + column / kPerChunk)) +
      static_cast<uint32_t>(column % kPerChunk * kSize);
  const auto pair_at = [&](int r) {
    const int down = r / L::kBlockRegisters * 64 + r / 2 % 2 * 8, across = r % L::kBlockRegisters / 4 * 8;
    const int chunk = down * Shared::kChunksPerLine + across / kPerChunk;
    return load_shared_packet<2 * kSize>(Shared::moved(lane_address, static_cast<unsigned int>(chunk)) +
                                         static_cast<uint32_t>(across % kPerChunk * kSize));
  };
  Tile<T, S, L> result;
  if constexpr (kSize == 1) {
    // Whole words, made by what the compiler does not see through: it would take each byte by itself.
    KILN_UNROLL for (int r = 0; r < L::kRegisters; r += 4) {
      const uint32_t word = __byte_perm(pair_at(r), pair_at(r + 2), 0x5410);
      memcpy(&result.registers[r], &word, sizeof word);
    }
  } else {
    KILN_UNROLL for (int r = 0; r < L::kRegisters; r += 2) {
      const auto packet = pair_at(r);
      memcpy(&result.registers[r], &packet, sizeof packet);
    }
  }
  return result;
}

template <typename T, typename S, bool kAlongColumns, bool kPadded, typename Step>
KILN_DEVICE auto operand_values_of(const SharedTile<T, S, kAlongColumns, kPadded, Step>& x) {
  using Operand = OperandLayout<S>;
  if constexpr (Operand::kIsOfWgmma) {
    const auto values = values_in_layout<typename Operand::OfWgmma>(x);
    values_were_read(x);
    return values;
  } else {
    return to_values(x);
  }
}

}  // namespace kiln::tl
