#pragma once

#include "compiler/tl/cuda/sm90/tensor_map.hpp"
#include "compiler/tl/cuda/tile_copy.hpp"
#include "core/box_map_table.hpp"

namespace kiln::tl {

/// See BoxMapTable.
template <int kElementBytes, int kBoxElements, int kBoxLines>
__constant__ BoxMapTable box_maps;

/// How many rows and columns of a tile, counted from its first, are in a mask that leaves out the others.
struct MaskRoom {
  int rows, columns;
  bool is_box = true;  ///< whether the mask is of that form, as far as its type tells
};
template <typename S, typename M>
KILN_DEVICE MaskRoom mask_room(const M& mask) {
  const bool all = mask.all();
  return {S::kRows, S::kColumns, all};
}
template <typename S, typename ShapeT>
KILN_DEVICE MaskRoom mask_room(const UniformMask<ShapeT>& mask) {
  return {mask.value ? S::kRows : 0, S::kColumns};
}
template <typename S, typename A>
KILN_DEVICE MaskRoom mask_room(const LessMask<A>& mask) {
  using Rows = typename A::row_stride_type;
  using Columns = typename A::column_stride_type;
  if constexpr (is_same<Rows, Constant<1>> && is_same<Columns, Constant<0>>) {
    return {mask.room, S::kColumns};
  } else if constexpr (is_same<Rows, Constant<0>> && is_same<Columns, Constant<1>>) {
    return {S::kRows, mask.room};
  } else {
    const bool all = mask.all();
    return {S::kRows, S::kColumns, all};
  }
}
template <typename S, typename A, typename B>
KILN_DEVICE MaskRoom mask_room(const AndMask<A, B>& mask) {
  const MaskRoom a = mask_room<S>(mask.first), b = mask_room<S>(mask.second);
  return {smaller(a.rows, b.rows), smaller(a.columns, b.columns), a.is_box && b.is_box};
}

/// One box of a tile at one step: its coordinates, and in the highest bits of `from` the slot of the map that it takes.
struct BoxPlace {
  uint32_t place, far_place;
  uint32_t from;  ///< element in bits 0 to 7, line in bits 8 to 23

  KILN_DEVICE BoxPlace of_lane(int lane) const {
    return {__shfl_sync(0xffffffffu, place, lane), __shfl_sync(0xffffffffu, far_place, lane),
            __shfl_sync(0xffffffffu, from, lane)};
  }
  /// By one thread.
  KILN_DEVICE void copy(uint32_t to, const BoxMapTable& table, sm90::Barrier barrier) const {
    sm90::copy_box(to, reinterpret_cast<const sm90::TensorMap&>(table.maps[from >> 24]), barrier, from & 0xff,
                   from >> 8 & 0xffff, static_cast<int>(place), static_cast<int>(far_place));
  }
};

/// A deferred load as boxes that the copy engine moves: panels of a line's 128 bytes or less (PanelPlaces).
template <typename Deferred>
struct BoxCopy {
  using Copy = TileCopy<Deferred>;
  using S = typename Copy::S;
  using Shared = typename Copy::Shared;
  static constexpr int kSize = Copy::kSize;
  static constexpr int kPlaceBytes = BoxMapTable::kPlaceBytes;
  static constexpr int kLineElements = Shared::kLineElements, kLines = Shared::kLines;
  static constexpr int kBoxElements = smaller(kLineElements, SharedPlaces::kLineBytes / kSize);
  static constexpr int kBoxLines = smaller(kLines, 256);
  static constexpr bool kPossible = kHasWgmma && kSize == 2 && Copy::kContiguous && !Shared::kHasPadding;
  static constexpr int kPanels = kLineElements / kBoxElements;
  static constexpr int kBoxes = kPanels * (kLines / kBoxLines);
  static constexpr uint32_t kBoxBytes = Shared::kBytes / kBoxes;
  static constexpr int kMapElements = BoxMapTable::line_elements(kBoxElements, kSize);

  KILN_DEVICE static int64_t line_bytes(const Deferred& load) {
    const auto& offsets = load.pointers.offsets;
    return kSize * (Copy::kColumnsAreLines ? static_cast<int64_t>(offsets.column_stride)
                                           : static_cast<int64_t>(offsets.row_stride));
  }
  KILN_DEVICE static const BoxMapTable& table() { return box_maps<kSize, kBoxElements, kBoxLines>; }
  /// Slot of the map for this load, or -1. Tells the host, of what follows from the kernel's parameters, which maps
  /// there should be (compiler/box_loads.hpp reads it in the PTX).
  KILN_DEVICE static int find_map(const Deferred& load) {
    const int64_t bytes = line_bytes(load);
    asm volatile("// kiln.box_map %0 of %1 lines of %2 elements of %3 bytes, %4 bytes apart" ::"l"(&table()),
                 "n"(kBoxLines), "n"(kBoxElements), "n"(kSize), "l"(bytes));
    const int slot = BoxMapTable::slot(bytes);
    return bytes != 0 && table().line_bytes[slot] == bytes ? slot : -1;
  }

  int64_t first;  ///< address
  int64_t line_stride_bytes;
  int lines, elements;  ///< of the tile that are not missing
  bool fits;            ///< whether boxes can bring it

  KILN_DEVICE explicit BoxCopy(const Deferred& load)
      : first(reinterpret_cast<int64_t>(load.pointers.data + load.pointers.offsets.base)),
        line_stride_bytes(line_bytes(load)) {
    const MaskRoom room = mask_room<S>(load.mask);
    lines = Copy::kColumnsAreLines ? room.columns : room.rows;
    elements = Copy::kColumnsAreLines ? room.rows : room.columns;
    // A box that lacks elements ends where the map ends, at a multiple of 16 bytes.
    const bool ends_well = elements >= kLineElements || elements <= 0 || elements % kBoxElements == 0 ||
                           (first + int64_t{kSize} * elements) % kPlaceBytes == 0;
    fits = room.is_box && ends_well;
  }

  /// Offset of box `box` in the tile's place.
  KILN_DEVICE static uint32_t offset(int box) {
    return static_cast<uint32_t>(box % kPanels * Shared::Places::kPanelLineBytes * kLines +
                                 box / kPanels * Shared::Places::kPanelLineBytes * kBoxLines);
  }
  KILN_DEVICE BoxPlace place(int box, int map) const {
    const int element = box % kPanels * kBoxElements, line = box / kPanels * kBoxLines;
    const int present = within(elements - element, kBoxElements), present_lines = within(lines - line, kBoxLines);
    int64_t address = first + element * kSize + line * line_stride_bytes;
    const int x =
        present < kBoxElements ? kMapElements - present : static_cast<int>(address & (kPlaceBytes - 1)) / kSize;
    const int y = kBoxLines - present_lines;
    address -= x * kSize + y * line_stride_bytes + BoxMapTable::kOrigin;
    if (present == 0 || present_lines == 0) map = BoxMapTable::kNothing;
    return {static_cast<uint32_t>(address / kPlaceBytes & BoxMapTable::kNearPlaces),
            static_cast<uint32_t>(address >> BoxMapTable::kFarBits), static_cast<uint32_t>(x | y << 8 | map << 24)};
  }

 private:
  KILN_DEVICE static int within(int x, int most) { return x < 0 ? 0 : x < most ? x : most; }
};

}  // namespace kiln::tl
