#pragma once

#include <kiln/tl.hpp>

#include "ops/common/kernel_place.hpp"
#include "ops/normalization/iteration.hpp"

namespace kiln::ops {

/// The tiles that one program goes through. Axis kAxis of a tile runs along the reduced dimension, the other along the
/// kept one. kColumns: see RowColumns. Places along the reduced dimension are counted from where the first tile starts,
/// which with kDenseAnywhere is up to an access before the row.
template <int kAxis, int kColumns, int BLOCK_M, int BLOCK_N, int kOperands>
struct RowTiles {
  static constexpr int kKept = kAxis == 1 ? BLOCK_M : BLOCK_N;
  static constexpr int kReduced = kAxis == 1 ? BLOCK_N : BLOCK_M;
  static constexpr bool kKeptIsColumns = kAxis == 0;
  using Shape = tl::Shape<BLOCK_M, BLOCK_N>;
  static constexpr bool kIsAnywhere = kColumns == kDenseAnywhere;
  static_assert(!kIsAnywhere || (kAxis == 1 && BLOCK_M == 1), "only a program of one row chooses where it starts");

  const RowIteration<kOperands>& iteration;
  tl::int64_t first_kept;
  tl::int64_t base[kOperands];
  tl::int64_t before = 0;  ///< elements from where the first tile starts up to the row

  /// `data`: of the operand whose accesses are to be aligned.
  template <typename T>
  KILN_DEVICE RowTiles(const RowIteration<kOperands>& walk, tl::int64_t block, int operand, const T* data)
      : RowTiles(walk, block) {
#if defined(KILN_TARGET_CUDA)
    if constexpr (kIsAnywhere) {
      constexpr int kAccess = tl::DefaultLayout<Shape>::kVector * static_cast<int>(sizeof(T));
      const T* const row = data + (base[operand] + first_kept * walk.kept_strides[operand]);
      before = static_cast<tl::int64_t>(reinterpret_cast<tl::uint64_t>(row) % kAccess / sizeof(T));
    }
#endif
  }
  KILN_DEVICE RowTiles(const RowIteration<kOperands>& walk, tl::int64_t block) : iteration(walk), base{} {
    if (__builtin_expect(walk.num_outer_dims > 0, 0)) {
      ProgramNumber rest = static_cast<ProgramNumber>(block);
      first_kept = take_coordinate(rest, walk.kept_blocks) * kKept;
      KILN_NO_UNROLL for (int dim = 0; dim < walk.num_outer_dims; ++dim) {
        const tl::int64_t coordinate = take_coordinate(rest, walk.outer_extents[dim]);
        KILN_UNROLL for (int operand = 0; operand < kOperands; ++operand) base[operand] +=
            coordinate * walk.outer_strides[operand][dim];
      }
    } else {
      first_kept = block * kKept;
    }
  }

  /// Indices along the kept and the reduced dimension.
  KILN_DEVICE auto kept() const { return tl::expand_dims<kAxis>(first_kept + tl::arange<kKept>()); }
  KILN_DEVICE auto reduced(tl::int64_t place) const {
    return tl::expand_dims<1 - kAxis>(place - before + tl::arange<kReduced>());
  }
  /// The place behind the last.
  KILN_DEVICE tl::int64_t end() const { return iteration.reduced + before; }

  /// Offsets of the tile that starts at place `first`.
  KILN_DEVICE auto offsets(int operand, tl::int64_t first) const {
    return base[operand] + scaled<kKeptIsColumns>(kept(), iteration.kept_strides[operand]) +
           scaled<!kKeptIsColumns>(reduced(first), iteration.reduced_strides[operand]);
  }
  /// The same for an operand that has only the reduced dimensions: as a whole tile, since rereading a row of it from
  /// the cache costs less than a change of layout.
  KILN_DEVICE auto shared_offsets(int operand, tl::int64_t first) const {
    return base[operand] + kept() * 0 + scaled<!kKeptIsColumns>(reduced(first), iteration.reduced_strides[operand]);
  }
  /// kWhole: the tile is known to be full.
  template <bool kWhole = false>
  KILN_DEVICE auto mask(tl::int64_t first) const {
    if constexpr (kWhole || kColumns == kDenseWhole)
      return true;
    else if constexpr (kIsAnywhere)
      return (reduced(first) >= 0) & (reduced(first) < iteration.reduced);
    else if constexpr (kKept == 1)  // the kept blocks are the kept indices
      return reduced(first) < iteration.reduced;
    else
      return (kept() < iteration.kept) & (reduced(first) < iteration.reduced);
  }

  /// visit<kWhole>(first) for steps of kTiles tiles from begin to end; the last first where kReverse.
  template <int kTiles, bool kReverse = false, typename Visit>
  KILN_DEVICE void for_each_step(tl::int64_t begin, tl::int64_t end, Visit visit) const {
    constexpr tl::int64_t kStep = kTiles * kReduced;
#if defined(KILN_TARGET_CUDA)
    // A test at each access costs a GPU nothing beside the memory, a second copy of the code costs it compile time.
    constexpr bool kPeels = false;
#else
    constexpr bool kPeels = true;
#endif
    tl::int64_t whole_end = begin;
    if (kPeels && (kKept == 1 || first_kept + kKept <= iteration.kept) && begin < end)
      whole_end = begin + (end - begin) / kStep * kStep;
    const auto visit_whole = [&] {
      if constexpr (kPeels)
        KILN_TILE_LOOP for (tl::int64_t start = begin; start < whole_end; start += kStep)
            visit.template operator()<true>(start);
    };
    const auto visit_rest = [&] {
      if constexpr (kPeels && kKept == 1) {
        if (whole_end < end) visit.template operator()<false>(whole_end);
      } else if constexpr (kReverse) {
        const tl::int64_t steps = (end - whole_end + kStep - 1) / kStep;
        KILN_NO_UNROLL for (tl::int64_t start = whole_end + (steps - 1) * kStep; start >= whole_end; start -= kStep)
            visit.template operator()<false>(start);
      } else {
        KILN_NO_UNROLL for (tl::int64_t start = whole_end; start < end; start += kStep)
            visit.template operator()<false>(start);
      }
    };
    if constexpr (kReverse) {
      visit_rest();
      visit_whole();
    } else {
      visit_whole();
      visit_rest();
    }
  }

  /// Moves every operand to a segment (direction = 1) or back to the first (-1).
  KILN_DEVICE void shift_by_segment(tl::int64_t segment, tl::int64_t direction) {
    tl::uint64_t rest = static_cast<tl::uint64_t>(segment);
    KILN_NO_UNROLL for (int dim = 0; dim < iteration.num_segment_dims; ++dim) {
      const tl::int64_t coordinate = direction * take_coordinate(rest, iteration.segment_extents[dim]);
      KILN_UNROLL for (int operand = 0; operand < kOperands; ++operand) base[operand] +=
          coordinate * iteration.segment_strides[operand][dim];
    }
  }

 private:
  template <bool kAlongColumns, typename A>
  KILN_DEVICE static auto scaled(const A& indices, tl::int64_t stride) {
    if constexpr (kColumns != kStridedColumns && kAlongColumns)
      return indices;
    else
      return indices * stride;
  }
};

}  // namespace kiln::ops
