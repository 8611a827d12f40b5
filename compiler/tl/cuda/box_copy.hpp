#pragma once

#include "compiler/tl/cuda/separable_copy.hpp"
#include "compiler/tl/cuda/sm90/tensor_map.hpp"
#include "compiler/tl/cuda/tile_copy.hpp"
#include "compiler/tl/mask_rectangle.hpp"
#include "core/box_map_table.hpp"

namespace kiln::tl {

/// See BoxMapTable.
template <int kElementBytes, int kBoxElements, int kBoxLines>
__constant__ BoxMapTable box_maps;

/// Where a table should have the map for a load, and what it has there.
struct BoxMapPlace {
  int slot;
  uint32_t line_bytes;  ///< 0: more than a map has
  uint32_t key;
  KILN_DEVICE bool is_given() const { return (line_bytes != 0) & ((key & ~BoxMapTable::kFollowsStores) == line_bytes); }
  KILN_DEVICE bool follows_stores() const { return (key & BoxMapTable::kFollowsStores) != 0; }
};

/// A table's key as global memory, which is waited for where it is used. Constants hold a warp up until they have come,
/// half a microsecond: those at addresses of a whole warp at once, the others when the address's register is written.
KILN_DEVICE uint32_t load_key(const unsigned int& key) {
  uint32_t found;
  asm volatile("ld.global.u32 %0, [%1];" : "=r"(found) : "l"(reinterpret_cast<uint64_t>(&key)));
  return found;
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
  static constexpr int box_elements() {
    if constexpr (kPossible)
      return Shared::Places::kPanelLineBytes / kSize;
    else
      return kLineElements;
  }
  /// As many as a box may have, of which some make a panel: whole groups of eight, which the swizzle goes by.
  static constexpr int box_lines() {
    int boxes = 1;
    while (kLines > 256 * boxes || (boxes > 1 && kLines % (8 * boxes) != 0)) ++boxes;
    return kLines / boxes;
  }
  /// Of elements of 4 bytes only float, whose boxes may be rounded (BoxForm).
  static constexpr bool kPossible =
      kHasWgmma && (kSize <= 2 || is_same<typename Copy::T, float>) && Copy::kContiguous && !Shared::kHasPadding;
  static constexpr int kBoxElements = box_elements(), kBoxLines = box_lines();
  static constexpr int kPanels = kLineElements / kBoxElements;
  static constexpr int kBoxes = kPanels * (kLines / kBoxLines);
  static constexpr uint32_t kBoxBytes = kBoxElements * kBoxLines * kSize;

  /// Of one line any distance is right.
  KILN_DEVICE static int64_t line_bytes(const Deferred& load) {
    if constexpr (kLines == 1) return kLineElements * kSize;
    const auto& offsets = load.pointers.offsets;
    return kSize * (Copy::kColumnsAreLines ? static_cast<int64_t>(offsets.column_stride)
                                           : static_cast<int64_t>(offsets.row_stride));
  }
  KILN_DEVICE static const BoxMapTable& table() { return box_maps<kSize, kBoxElements, kBoxLines>; }
  KILN_DEVICE static const sm90::TensorMap& map(int slot) {
    return reinterpret_cast<const sm90::TensorMap&>(table().maps[slot]);
  }
  /// Where the map for this load is, if it is there. Tells the host, of what follows from the kernel's parameters,
  /// which maps there should be (compiler/box_loads.hpp reads it in the PTX).
  KILN_DEVICE static BoxMapPlace find_map(const Deferred& load) {
    const int64_t bytes = line_bytes(load);
    asm volatile("// kiln.box_map %0 lines of %1 elements of %2 bytes, %3 bytes apart" ::"n"(kBoxLines),
                 "n"(kBoxElements), "n"(kSize), "l"(bytes));
    const int slot = BoxMapTable::slot(bytes);
    return {slot, bytes >> 32 == 0 ? static_cast<uint32_t>(bytes) : 0, load_key(table().keys[slot])};
  }

  int64_t first;  ///< address
  int64_t line_stride_bytes;
  int lines, elements;  ///< of the tile that are not missing
  bool fits;            ///< whether boxes can bring it

  KILN_DEVICE explicit BoxCopy(const Deferred& load)
      : first(reinterpret_cast<int64_t>(load.pointers.data + load.pointers.offsets.base)),
        line_stride_bytes(line_bytes(load)) {
    constexpr Extents kWhole{S::kRows, S::kColumns};
    using Mask = decltype(load.mask);
    Extents there = kWhole;
    fits = true;
    if constexpr (is_rectangle<Mask>)
      there = extents_of(load.mask, kWhole);
    else
      fits = load.mask.all();
    lines = Copy::kColumnsAreLines ? there.columns : there.rows;
    elements = Copy::kColumnsAreLines ? there.rows : there.columns;
    fits &= first % kPlaceBytes == 0 && elements * kSize % kPlaceBytes == 0;
  }

  /// Tells the host how far lines are apart at any step, as find_map() does of the first: where the two are not the
  /// same there is to be no map. To compare them here was the alternative, at the cost of registers: kernels of
  /// attention with none to spare spilled.
  KILN_DEVICE void state_lines() const {
    asm volatile("// kiln.box_lines %0 lines of %1 elements of %2 bytes, %3 bytes apart" ::"n"(kBoxLines),
                 "n"(kBoxElements), "n"(kSize), "l"(line_stride_bytes));
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
    const int x = kBoxElements - present, y = kBoxLines - present_lines;
    address -= x * kSize + y * line_stride_bytes + BoxMapTable::kOrigin;
    if (present == 0 || present_lines == 0) map = BoxMapTable::kNothing;
    return {static_cast<uint32_t>(address / kPlaceBytes & BoxMapTable::kNearPlaces),
            static_cast<uint32_t>(address >> BoxMapTable::kFarBits), static_cast<uint32_t>(x | y << 8 | map << 24)};
  }

 private:
  KILN_DEVICE static int within(int x, int most) { return x < 0 ? 0 : x < most ? x : most; }
};

/// One at separable addresses is one of boxes where nothing wraps.
template <typename T, typename Rows, typename Columns, typename A, typename M, TileLines kLines>
struct BoxCopy<DeferredLoad<PointerTile<T, Separable<Rows, Columns, A>>, M, kLines>>
    : BoxCopy<typename TileCopy<DeferredLoad<PointerTile<T, Separable<Rows, Columns, A>>, M, kLines>>::AffineLoad> {
  using Copy = TileCopy<DeferredLoad<PointerTile<T, Separable<Rows, Columns, A>>, M, kLines>>;
  using Straight = BoxCopy<typename Copy::AffineLoad>;
  static constexpr bool kPossible = Straight::kPossible && Separable<Rows, Columns, A>::kMayBeAffine;

  KILN_DEVICE static BoxMapPlace find_map(const typename Copy::Load& load) {
    return Straight::find_map(Copy::as_affine(load));
  }
  KILN_DEVICE explicit BoxCopy(const typename Copy::Load& load) : Straight(Copy::as_affine(load)) {
    this->fits &= Copy::is_affine(load);
  }
};

}  // namespace kiln::tl
