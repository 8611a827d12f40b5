#pragma once

#include "compiler/tl/shape.hpp"

namespace kiln::tl {

constexpr int smaller(int a, int b) {
  return a < b ? a : b;
}
constexpr int larger(int a, int b) {
  return a > b ? a : b;
}

/// Row-major elements dealt to threads in runs of kVector: run c of thread t starts at element (c * kNumThreads + t) *
/// kVector, so that neighbouring threads access neighbouring memory. Tiles smaller than the program are held several
/// times over.
template <typename ShapeT>
struct Blocked {
  // Not of every kernel: one that has no tile may run in 12 warps. The shape makes it wait for a tile.
  static_assert(ShapeT::kNumel > 0 && (kNumWarps & (kNumWarps - 1)) == 0 && (kVectorWidth & (kVectorWidth - 1)) == 0,
                "num_warps and the vector width are powers of two where there are tiles, which divide evenly among "
                "threads");
  static_assert(kIsPlainShape<ShapeT>, KILN_PLAIN_SHAPE);
  static constexpr int kRegisters = larger(1, ShapeT::kNumel / kNumThreads);
  static constexpr int kVector = smaller(smaller(kVectorWidth, kRegisters), ShapeT::kColumns);
  static constexpr int kRuns = kRegisters / kVector;
  static constexpr bool kReplicated = ShapeT::kNumel < kNumThreads;

  /// Elements between a thread's run and its next.
  static constexpr int kPitch = kNumThreads * kVector;

  KILN_DEVICE static int thread_element() {
    const int thread = static_cast<int>(threadIdx.x);
    return kReplicated ? thread % ShapeT::kNumel : thread * kVector;
  }
  // Rows and columns are split so that what a run adds is known to the compiler: with r a constant, at most one shift
  // and one mask of the thread's number remain for the whole tile.
  static constexpr bool kRunsAreRows = ShapeT::kRows > 1 && kPitch >= ShapeT::kColumns;
  /// Rows and columns from a thread's first element to that in register r.
  KILN_DEVICE static constexpr int row_step(int r) {
    if constexpr (ShapeT::kRows == 1)
      return 0;
    else if constexpr (kRunsAreRows)
      return (r / kVector) * (kPitch / ShapeT::kColumns);
    else
      return (r / kVector) / (ShapeT::kColumns / kPitch);
  }
  KILN_DEVICE static constexpr int column_step(int r) {
    if constexpr (kReplicated)
      return 0;
    else
      return (kRunsAreRows ? 0 : ((r / kVector) * kPitch) % ShapeT::kColumns) + r % kVector;
  }
  KILN_DEVICE static int row(int r) {
    if constexpr (kRunsAreRows)
      return row_step(r) + thread_element() / ShapeT::kColumns;
    else
      return row_step(r);
  }
  KILN_DEVICE static int column(int r) {
    if constexpr (kRunsAreRows)
      return column_step(r) + thread_element() % ShapeT::kColumns;
    else
      return column_step(r) + thread_element();
  }
  KILN_DEVICE static bool owns(int) { return !kReplicated || static_cast<int>(threadIdx.x) < ShapeT::kNumel; }

  /// Neighbouring registers that hold one row.
  static constexpr int kRegistersOfRow = ShapeT::kRows == 1 ? kRegisters
                                         : kRunsAreRows     ? kVector
                                                            : ShapeT::kColumns / kNumThreads;
  /// The first register with the row or with the column of register r.
  static constexpr int same_row(int r) { return r / kRegistersOfRow * kRegistersOfRow; }
  static constexpr int same_column(int r) { return r % kRegistersOfRow; }
};

template <typename ShapeT>
using DefaultLayout = Blocked<ShapeT>;

/// Registers of a layout that hold neighbours in a row: so many from each multiple of so many on, the first of them in
/// a column that is a multiple of as many. A power of two.
template <typename L>
inline constexpr int kRunOf = 1;
template <typename ShapeT>
inline constexpr int kRunOf<Blocked<ShapeT>> = Blocked<ShapeT>::kVector;

/// What is left of a two-dimensional parent layout when axis kAxis is reduced: each register keeps its place in the
/// parent and holds the value of its row (kAxis = 1) or column (kAxis = 0), so broadcasting back costs nothing.
template <int kAxis, typename ParentShape>
struct Slice {
  using Parent = Blocked<ParentShape>;
  static constexpr int kRegisters = Parent::kRegisters;

  KILN_DEVICE static int row(int) { return 0; }
  KILN_DEVICE static int column(int r) { return kAxis == 1 ? Parent::row(r) : Parent::column(r); }
  KILN_DEVICE static bool owns(int r) {
    return Parent::owns(r) && (kAxis == 1 ? Parent::column(r) : Parent::row(r)) == 0;
  }
};

/// A one-dimensional layout with a unit axis put in at kAxis.
template <int kAxis, typename Inner>
struct Expanded {
  static constexpr int kRegisters = Inner::kRegisters;
  KILN_DEVICE static int row(int r) { return kAxis == 1 ? Inner::column(r) : 0; }
  KILN_DEVICE static int column(int r) { return kAxis == 0 ? Inner::column(r) : 0; }
  KILN_DEVICE static bool owns(int r) { return Inner::owns(r); }
};

}  // namespace kiln::tl
