#pragma once

#include "compiler/tl/cuda/mma_layout.hpp"

namespace kiln::tl {

/// Whether the target has the matrix products of warpgroups (PTX: wgmma), and the program whole warpgroups: fewer warps
/// must not even wait for products.
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
inline constexpr bool kHasWgmma = kNumWarps % 4 == 0;
#else
inline constexpr bool kHasWgmma = false;
#endif

/// A program's warpgroups (four warps each) as a grid over a tile of sums that they share: by rows as far as each gets
/// 64, since then a row lies in one warp, and by columns beyond that.
template <typename ShapeT>
struct WarpgroupGrid {
  static constexpr int kCount = kNumWarps / 4;
  static constexpr int row_groups() {
    int groups = 1;
    while (2 * groups <= kCount && ShapeT::kRows % (128 * groups) == 0) groups *= 2;
    return groups;
  }
  static constexpr int kRowGroups = row_groups(), kColumnGroups = larger(1, kCount / kRowGroups);
  static constexpr int kRows = ShapeT::kRows / kRowGroups, kColumns = ShapeT::kColumns / kColumnGroups;
  /// Parts of columns are whole panels of an operand in shared memory (PanelPlaces), or halves of the one that there
  /// is.
  static constexpr bool kFits = kHasWgmma && kCount > 0 && is_power_of_two(kNumWarps) && ShapeT::kRows % 64 == 0 &&
                                ShapeT::kColumns % (kColumnGroups == 1 ? 16 : 32 * kColumnGroups) == 0;

  KILN_DEVICE static int warpgroup() { return static_cast<int>(threadIdx.x) / 128; }
  /// First row and column of the calling warpgroup's part.
  KILN_DEVICE static int row() { return kRowGroups == 1 ? 0 : warpgroup() / kColumnGroups * kRows; }
  KILN_DEVICE static int column() { return kColumnGroups == 1 ? 0 : warpgroup() % kColumnGroups * kColumns; }
};

/// A number for each of kM rows of a product that warpgroups share: a lane has a register for each row that it holds a
/// part of, as do the three lanes beside it, and where warpgroups share rows by columns, the lanes in the others'
/// place. It depends on no columns, so that rows of different products meet.
template <int kM>
struct WgmmaRows {
  using Grid = WarpgroupGrid<Shape<kM, 16>>;
  static constexpr int kRegisters = 2 * (Grid::kRows / 64);

  KILN_DEVICE static int row(int) { return 0; }
  KILN_DEVICE static int column(int r) {
    const int thread = static_cast<int>(threadIdx.x);
    return Grid::row() + r / 2 * 64 + thread % 128 / 32 * 16 + r % 2 * 8 + thread % 32 / 4;
  }
  KILN_DEVICE static bool owns(int) { return threadIdx.x % 4 == 0 && Grid::warpgroup() % Grid::kColumnGroups == 0; }
};
template <int kM>
inline constexpr bool kIsMeetingLayout<WgmmaRows<kM>> = true;

/// The sums of wgmma.m64 instructions: a warpgroup's part in blocks of 64 rows, of which each warp holds 16 and all
/// columns; register 4 * j + 2 * h + e of a block is row 8 * h + lane / 4 of the warp's, column 8 * j + 2 * (lane % 4)
/// + e.
template <typename ShapeT>
struct WgmmaLayout {
  using Grid = WarpgroupGrid<ShapeT>;
  static constexpr int kRowBlocks = Grid::kRows / 64;
  static constexpr int kBlockRegisters = Grid::kColumns / 2;
  static constexpr int kRegisters = kRowBlocks * kBlockRegisters;

  KILN_DEVICE static int lane_row() {
    return Grid::row() + static_cast<int>(threadIdx.x) % 128 / 32 * 16 + static_cast<int>(threadIdx.x) % 32 / 4;
  }
  KILN_DEVICE static int lane_column() { return Grid::column() + 2 * (static_cast<int>(threadIdx.x) % 4); }
  KILN_DEVICE static int row(int r) { return lane_row() + r / kBlockRegisters * 64 + r / 2 % 2 * 8; }
  KILN_DEVICE static int column(int r) { return lane_column() + r % kBlockRegisters / 4 * 8 + r % 2; }
  KILN_DEVICE static bool owns(int) { return true; }

  // As MmaLayout's.
  static constexpr int same_row(int r) { return r / kBlockRegisters * kBlockRegisters + r / 2 % 2 * 2; }
  static constexpr int same_column(int r) { return r % kBlockRegisters / 4 * 4 + r % 2; }
  static constexpr int kUnit = 2;
  static constexpr int kUnitPitch = 8;
  static constexpr int kUnits = Grid::kColumns / 8;
  static constexpr int kRowParts = 2 * kRowBlocks;
  static constexpr int unit_register(int row_part, int unit, int i) {
    return row_part / 2 * kBlockRegisters + unit * 4 + row_part % 2 * 2 + i;
  }
  static constexpr int kUnitLanes = 4;

  /// Whether all of a row lies in the four lanes that share it, and which number of WgmmaRows register r belongs to.
  static constexpr bool kRowsInLanes = Grid::kColumnGroups == 1;
  static constexpr int row_part(int r) { return r / kBlockRegisters * 2 + r / 2 % 2; }
  using Rows = WgmmaRows<ShapeT::kRows>;
  /// Warps that have parts of the same rows, and how far apart they are.
  static constexpr int kRowSharers = Grid::kColumnGroups, kSharerStride = 4;
  KILN_DEVICE static int first_sharer() {
    return Grid::warpgroup() / kRowSharers * kRowSharers * 4 + static_cast<int>(threadIdx.x) % 128 / 32;
  }
};
template <typename S>
inline constexpr bool kIsAccumulatorLayout<WgmmaLayout<S>> = true;
template <typename S>
inline constexpr bool kIsMeetingLayout<WgmmaLayout<S>> = true;
template <typename S>
inline constexpr int kRunOf<WgmmaLayout<S>> = 2;

/// Rows' numbers are at hand wherever the rows are.
template <typename S>
inline constexpr bool kBroadcastsInPlace<Expanded<1, WgmmaRows<S::kRows>>, S, WgmmaLayout<S>> = true;

}  // namespace kiln::tl
