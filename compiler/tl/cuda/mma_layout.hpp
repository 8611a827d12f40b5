#pragma once

#include "compiler/tl/cuda/layout.hpp"
#include "compiler/tl/cuda/mma_places.hpp"
#include "compiler/tl/cuda/redistribute.hpp"

namespace kiln::tl {

/// A program's warps as a grid over a tile that they share: parts that are as square as can be, counted in units
/// of kRowUnit x kColumnUnit, so that the operands' rows and columns are read by few warps and, of a unit that is a
/// warp's lanes, few times by a lane. A part is a unit or more; warps that are left over repeat what the first ones do.
template <typename ShapeT, int kRowUnit, int kColumnUnit>
struct WarpGrid {
  static_assert(ShapeT::kNumel > 0 && is_power_of_two(kNumWarps), "num_warps is a power of two where there are tiles");
  static_assert(is_power_of_two(ShapeT::kNumel), "a product's extents are powers of two but on sm_90a");

  static constexpr int count(bool of_columns) {
    int rows = 1, columns = 1;
    while (rows * columns < kNumWarps) {
      const bool can_split_rows = ShapeT::kRows / rows > kRowUnit;
      const bool can_split_columns = ShapeT::kColumns / columns > kColumnUnit;
      if (can_split_columns &&
          (!can_split_rows || ShapeT::kColumns / columns * kRowUnit >= ShapeT::kRows / rows * kColumnUnit))
        columns *= 2;
      else if (can_split_rows)
        rows *= 2;
      else
        break;
    }
    return of_columns ? columns : rows;
  }
  static constexpr int kRowWarps = count(false), kColumnWarps = count(true);
  static constexpr int kRows = ShapeT::kRows / kRowWarps, kColumns = ShapeT::kColumns / kColumnWarps;
  static constexpr bool kReplicated = kRowWarps * kColumnWarps < kNumWarps;

  /// First row and column of the calling warp's part.
  KILN_DEVICE static int row() { return static_cast<int>(threadIdx.x) / 32 / kColumnWarps % kRowWarps * kRows; }
  KILN_DEVICE static int column() { return static_cast<int>(threadIdx.x) / 32 % kColumnWarps * kColumns; }
  KILN_DEVICE static bool owns() {
    return !kReplicated || static_cast<int>(threadIdx.x) < 32 * kRowWarps * kColumnWarps;
  }
};

/// A number for each row of products of kM rows, in the lanes that hold parts of the row: warps by kRowWarps share the
/// rows, and what kColumnWarps neighbouring warps, or warps that are left over, hold is the same. Where all warps have
/// all rows it does not depend on the number of columns, so that rows of different products meet.
template <int kM, int kRowWarps, int kColumnWarps, bool kInterleaved>
struct MmaRows {
  using Places = MmaPlaces<kInterleaved ? 1 : 2>;
  static constexpr int kWarpRows = kM / kRowWarps;
  static constexpr int kRegisters = kWarpRows / 8;

  KILN_DEVICE static int warp() { return static_cast<int>(threadIdx.x) / 32; }
  KILN_DEVICE static int row(int) { return 0; }
  KILN_DEVICE static int column(int r) {
    return warp() / kColumnWarps % kRowWarps * kWarpRows + r / 2 * 16 +
           Places::outer(static_cast<int>(threadIdx.x) % 32 / 4, r % 2);
  }
  KILN_DEVICE static bool owns(int) {
    return threadIdx.x % 4 == 0 && warp() % kColumnWarps == 0 && warp() < kRowWarps * kColumnWarps;
  }
};
template <int kM, int kRowWarps, int kColumnWarps, bool kInterleaved>
inline constexpr bool kIsMeetingLayout<MmaRows<kM, kRowWarps, kColumnWarps, kInterleaved>> = true;

/// The accumulators of mma.m16n8 instructions: a warp's part in fragments of 16 x 16, each two instructions' results of
/// four registers: rows outer(group, 0) and outer(group, 1) by two columns. kElementBytes is the operands'.
template <typename ShapeT, int kElementBytes>
struct MmaLayout {
  using Warps = WarpGrid<ShapeT, 16, 16>;
  using Places = MmaPlaces<kElementBytes>;
  static constexpr int kRowFragments = Warps::kRows / 16, kColumnFragments = Warps::kColumns / 16;
  static constexpr int kRegisters = kRowFragments * kColumnFragments * 8;

  KILN_DEVICE static int lane_row() { return Warps::row() + Places::outer(static_cast<int>(threadIdx.x) % 32 / 4, 0); }
  KILN_DEVICE static int lane_column() {
    return Warps::column() + Places::outer(2 * (static_cast<int>(threadIdx.x) % 4), 0);
  }
  KILN_DEVICE static int row(int r) {
    return lane_row() + r / (8 * kColumnFragments) * 16 + Places::outer(0, r / 2 % 2);
  }
  KILN_DEVICE static int column(int r) {
    return lane_column() + r / 8 % kColumnFragments * 16 + Places::outer(r % 2, r / 4 % 2);
  }
  KILN_DEVICE static bool owns(int) { return Warps::owns(); }

  /// The first register with the row or with the column of register r.
  static constexpr int same_row(int r) { return r / (8 * kColumnFragments) * (8 * kColumnFragments) + r / 2 % 2 * 2; }
  static constexpr int same_column(int r) { return r % (8 * kColumnFragments) / 4 * 4 + r % 2; }

  /// Neighbouring columns that a lane holds of one row: kUnit of them in each of kUnits units, which are kUnitPitch
  /// columns apart; unit `unit` of row `row_part` (two to a row of fragments) has element i in unit_register().
  static constexpr int kUnit = Places::kInterleaved ? 4 : 2;
  static constexpr int kUnitPitch = 4 * kUnit;
  static constexpr int kUnits = Warps::kColumns / kUnitPitch;
  static constexpr int kRowParts = 2 * kRowFragments;
  static constexpr int unit_register(int row_part, int unit, int i) {
    const int row_base = row_part / 2 * (8 * kColumnFragments) + row_part % 2 * 2;
    return row_base + (Places::kInterleaved ? unit * 8 + i % 2 * 4 + i / 2 : unit * 4 + i);
  }
  /// Lanes that hold neighbouring units.
  static constexpr int kUnitLanes = 4;

  /// Where a number for each row lies, and which of its registers has that of register r's row.
  using Rows =
      MmaRows<ShapeT::kRows, Warps::kRowWarps, Warps::kRowWarps == 1 ? 1 : Warps::kColumnWarps, Places::kInterleaved>;
  static constexpr int row_part(int r) { return r / (8 * kColumnFragments) * 2 + r / 2 % 2; }
  /// Warps that have parts of the same rows, and how far apart they are: side by side.
  static constexpr int kRowSharers = Warps::kColumnWarps, kSharerStride = 1;
  KILN_DEVICE static int first_sharer() { return static_cast<int>(threadIdx.x) / 32 / kRowSharers * kRowSharers; }
};

template <typename S, int kElementBytes>
inline constexpr bool kIsAccumulatorLayout<MmaLayout<S, kElementBytes>> = true;
template <typename S, int kElementBytes>
inline constexpr bool
    kBroadcastsInPlace<Expanded<1, typename MmaLayout<S, kElementBytes>::Rows>, S, MmaLayout<S, kElementBytes>> = true;

/// Blocks of 4 x 4 elements dealt to lanes, for products that are formed in the ordinary arithmetic units: each operand
/// element read from shared memory is used four times or more.
template <typename ShapeT>
struct FmaLayout {
  static constexpr int kColumnLanes = smaller(8, ShapeT::kColumns / 4);
  static constexpr int kRowLanes = smaller(32 / kColumnLanes, ShapeT::kRows / 4);
  using Warps = WarpGrid<ShapeT, 4 * kRowLanes, 4 * kColumnLanes>;
  static constexpr int kRowBlocks = Warps::kRows / (4 * kRowLanes),
                       kColumnBlocks = Warps::kColumns / (4 * kColumnLanes);
  static constexpr int kRegisters = kRowBlocks * kColumnBlocks * 16;

  // Of reads of 16 bytes a warp's halves are served one after the other, rather than its quarters, only where lanes
  // that differ in bit 0, or all that differ in bit 1, ask for the same: bits 1 to 3 number the lanes along one axis,
  // bits 0 and 4 those along the other.
  static constexpr bool kAllLanes = kRowLanes * kColumnLanes == 32;
  KILN_DEVICE static int lane() { return static_cast<int>(threadIdx.x) % 32; }
  KILN_DEVICE static int lane_of_eight() { return lane() / 2 % 8; }
  KILN_DEVICE static int lane_of_four() { return lane() % 2 + lane() / 16 * 2; }
  KILN_DEVICE static int lane_row() {
    return !kAllLanes ? lane() / kColumnLanes % kRowLanes : kRowLanes == 8 ? lane_of_eight() : lane_of_four();
  }
  KILN_DEVICE static int lane_column() {
    return !kAllLanes ? lane() % kColumnLanes : kColumnLanes == 8 ? lane_of_eight() : lane_of_four();
  }
  /// The bits of a lane's number that tell lane_row() % 4, where all lanes hold parts.
  static constexpr int kRowLaneBits[2] = {kRowLanes == 8 ? 2 : 1, kRowLanes == 8 ? 4 : 16};
  KILN_DEVICE static int row(int r) {
    const int block = r / (16 * kColumnBlocks);
    return Warps::row() + block * 4 * kRowLanes + 4 * lane_row() + r / (4 * kColumnBlocks) % 4;
  }
  KILN_DEVICE static int column(int r) {
    return Warps::column() + r / 4 % kColumnBlocks * 4 * kColumnLanes + 4 * lane_column() + r % 4;
  }
  KILN_DEVICE static bool owns(int) { return Warps::owns() && lane() < kColumnLanes * kRowLanes; }

  static constexpr int same_row(int r) { return r / (4 * kColumnBlocks) * (4 * kColumnBlocks); }
  static constexpr int same_column(int r) { return r % (4 * kColumnBlocks); }

  static constexpr int kUnit = 4;
  static constexpr int kUnitPitch = 4 * kColumnLanes;
  static constexpr int kUnits = kColumnBlocks;
  static constexpr int kRowParts = 4 * kRowBlocks;
  static constexpr int unit_register(int row_part, int unit, int i) {
    return (row_part * kColumnBlocks + unit) * 4 + i;
  }
  static constexpr int kUnitLanes = 1;
};
template <typename S>
inline constexpr bool kIsAccumulatorLayout<FmaLayout<S>> = true;

}  // namespace kiln::tl
