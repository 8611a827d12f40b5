#pragma once

#include "compiler/tl/cuda/program.hpp"
#include "compiler/tl/reduce.hpp"

namespace kiln::tl {

/// The lines of a tile that a scan runs along, as a thread sees them: it holds
/// parts of kLines of them, of each kSegments stretches of kInner neighbouring
/// elements. The stretches of kAlong threads, kThreadStride apart, make up one
/// segment of a line, and the segments the line.
template <typename ShapeT, bool kAlongRows>
struct LineMap {
  using Rows = RowMap<ShapeT>;
  static constexpr int kLines = kAlongRows ? Rows::kGroups : Rows::kHeld;
  static constexpr int kSegments = kAlongRows ? Rows::kRunsPerRow : Rows::kGroups;
  static constexpr int kInner = kAlongRows ? Rows::L::kVector : 1;
  static constexpr int kThreadStride = kAlongRows ? 1 : Rows::kThreadsPerRow;
  static constexpr int kAlong = kAlongRows ? Rows::kThreadsPerRow : Rows::kDistinctThreads / Rows::kThreadsPerRow;

  static constexpr int kLanesAlong = smaller(kAlong, larger(1, 32 / kThreadStride));
  static constexpr int kWarpsAlong = kAlong / kLanesAlong;
  static constexpr int kWarpStride = larger(1, kThreadStride / 32);
  /// Lines that differ between the lanes of a warp.
  static constexpr int kLanesAcross = smaller(kThreadStride, 32);

  /// The line of register r.
  static constexpr int line_of(int r) { return kAlongRows ? r / Rows::kHeld : r % Rows::kHeld; }
  static constexpr int register_of(int line, int segment, int inner) {
    return kAlongRows ? line * Rows::kHeld + segment * kInner + inner : segment * Rows::kHeld + line;
  }
};

template <typename E>
KILN_DEVICE E select(bool condition, const E& x, const E& y) {
  return map_parts([condition](auto u, auto v) { return condition ? u : v; }, x, y);
}

/// What comes before each line's segment in this warp, by way of shared memory:
/// the warps before, and the segments before with all their warps. `totals` are
/// the warp's, in its last lanes; a carry with nothing before it is arbitrary.
/// The segments from kFirst on share two barriers, as many as fit the scratch;
/// `running` goes on from those before.
template <typename Lines, bool kReverse, int kFirst = 0, int kCount, typename E, typename F>
KILN_DEVICE void carry_over_warps(const E (&totals)[kCount], E (&carries)[kCount], E (&line_totals)[Lines::kLines],
                                  E& running, bool is_last_lane, int warp_position, int first_warp, F combine) {
  constexpr int kAcross = Lines::kLanesAcross;
  constexpr int kPitch = kNumWarps * kAcross;
  constexpr int kTogether = smaller(kCount, larger(1, kScratchBytes / static_cast<int>(kPitch * sizeof(E))));
  constexpr int kEnd = smaller(kCount, kFirst + kTogether);
  E* const scratch = shared_scratch<E, kTogether * kPitch>();
  const int across = static_cast<int>(threadIdx.x) % 32 % kAcross;
  sync_threads();
  if (is_last_lane) {
    E* const own = scratch + static_cast<int>(threadIdx.x) / 32 * kAcross + across;
    KILN_UNROLL for (int i = kFirst; i < kEnd; ++i) own[(i - kFirst) * kPitch] = totals[i];
  }
  sync_threads();
  const E* const first = scratch + first_warp * kAcross + across;
  KILN_UNROLL for (int i = kFirst; i < kEnd; ++i) {
    KILN_UNROLL for (int k = 0; k < Lines::kWarpsAlong; ++k) {
      const int source = (kReverse ? Lines::kWarpsAlong - 1 - k : k) * Lines::kWarpStride;
      const E total = first[(i - kFirst) * kPitch + source * kAcross];
      carries[i] = k == 0 ? running : select(k == warp_position, running, carries[i]);
      running = i % Lines::kSegments == 0 && k == 0 ? total : combine(running, total);
    }
    line_totals[i / Lines::kSegments] = running;
  }
  if constexpr (kEnd < kCount)
    carry_over_warps<Lines, kReverse, kEnd>(totals, carries, line_totals, running, is_last_lane, warp_position,
                                            first_warp, combine);
}

/// Each element replaced by the combination of its line up to and with it:
/// within the registers of a thread, then over lanes, then over warps and
/// segments, whose totals meet in shared memory. From the end on for kReverse:
/// every position is then counted from there. kWithTotals: the Tuple of that
/// and of what reduce would give.
template <bool kAlongRows, bool kReverse, bool kWithTotals, typename Tiles, typename F>
KILN_DEVICE auto scan_lines(const Tiles& tiles, F combine) {
  using E = element_of_t<Tiles>;
  using Lines = LineMap<shape_of_t<Tiles>, kAlongRows>;
  constexpr int kSegments = Lines::kSegments;
  constexpr int kCount = Lines::kLines * kSegments;
  const auto register_of = [](int i, int inner) {
    const int segment = i % kSegments;
    return Lines::register_of(i / kSegments, kReverse ? kSegments - 1 - segment : segment,
                              kReverse ? Lines::kInner - 1 - inner : inner);
  };
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int lane_from_start = lane / Lines::kThreadStride % Lines::kLanesAlong;
  const int lane_position = kReverse ? Lines::kLanesAlong - 1 - lane_from_start : lane_from_start;
  const int warp_from_start = warp / Lines::kWarpStride % Lines::kWarpsAlong;

  Tiles result = tiles;
  E totals[kCount];  // of the lanes of this warp up to and with this one, for
                     // each line and segment
  E before[kCount];  // of the lanes before this one, where there are any
  KILN_UNROLL for (int i = 0; i < kCount; ++i) {
    E total = element_of(tiles, register_of(i, 0));
    KILN_UNROLL for (int inner = 1; inner < Lines::kInner; ++inner) {
      total = combine(total, element_of(tiles, register_of(i, inner)));
      set_element(result, register_of(i, inner), total);
    }
    const auto from_before = [&](int distance) {
      return exchange(total, [distance](auto x) {
        return kReverse ? __shfl_down_sync(kAllLanes, x, distance * Lines::kThreadStride)
                        : __shfl_up_sync(kAllLanes, x, distance * Lines::kThreadStride);
      });
    };
    KILN_UNROLL for (int distance = 1; distance < Lines::kLanesAlong; distance *= 2) {
      const E other = from_before(distance);
      total = select(lane_position >= distance, combine(other, total), total);
    }
    totals[i] = total;
    if constexpr (Lines::kLanesAlong > 1) before[i] = from_before(1);
  }

  constexpr bool kCarries = kSegments > 1 || Lines::kWarpsAlong > 1;
  const int warp_position = kReverse ? Lines::kWarpsAlong - 1 - warp_from_start : warp_from_start;
  E carries[kCount];
  E line_totals[Lines::kLines];
  if constexpr (Lines::kWarpsAlong == 1) {
    KILN_UNROLL for (int i = 0; i < kCount; ++i) {
      const bool is_last = i % kSegments == kSegments - 1;
      if (is_last && !kWithTotals) continue;
      E total = totals[i];
      if constexpr (Lines::kLanesAlong > 1) {
        const int last = lane + (Lines::kLanesAlong - 1 - lane_position) * (kReverse ? -1 : 1) * Lines::kThreadStride;
        total = exchange(total, [last](auto x) { return __shfl_sync(kAllLanes, x, last); });
      }
      if (i % kSegments > 0) total = combine(carries[i], total);
      if (is_last)
        line_totals[i / kSegments] = total;
      else
        carries[i + 1] = total;
    }
  } else {
    E running = totals[0];
    carry_over_warps<Lines, kReverse>(totals, carries, line_totals, running, lane_position == Lines::kLanesAlong - 1,
                                      warp_position, warp - warp_from_start * Lines::kWarpStride, combine);
  }

  KILN_UNROLL for (int i = 0; i < kCount; ++i) {
    const bool has_before = Lines::kLanesAlong > 1 && lane_position > 0;
    const bool has_carry = kCarries && (i % kSegments > 0 || warp_position > 0);
    E prefix = element_of(tiles, 0);
    if constexpr (Lines::kLanesAlong > 1) prefix = before[i];
    if constexpr (kCarries) {
      E carried = carries[i];
      if constexpr (Lines::kLanesAlong > 1) carried = select(has_before, combine(carried, prefix), carried);
      prefix = select(has_carry, carried, prefix);
    }
    KILN_UNROLL for (int inner = 0; inner < Lines::kInner; ++inner) {
      const int r = register_of(i, inner);
      const E own = element_of(result, r);
      set_element(result, r, select(has_before || has_carry, combine(prefix, own), own));
    }
  }
  if constexpr (kWithTotals) {
    using S = shape_of_t<Tiles>;
    if constexpr (S::kRank == 1) {
      return Tuple{result, line_totals[0]};
    } else {
      constexpr int kAxis = kAlongRows ? 1 : 0;
      auto last = unset_tiles<Shape<kAlongRows ? S::kRows : S::kColumns>, Slice<kAxis, S>>(tiles);
      KILN_UNROLL for (int r = 0; r < Lines::Rows::L::kRegisters; ++r)
          set_element(last, r, line_totals[Lines::line_of(r)]);
      return Tuple{result, last};
    }
  } else {
    return result;
  }
}

}  // namespace kiln::tl
