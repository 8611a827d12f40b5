#pragma once

#include "compiler/tl/cuda/copy_warps.hpp"
#include "compiler/tl/cuda/program.hpp"
#include "compiler/tl/cuda/sm90/warpgroup.hpp"
#include "compiler/tl/cuda/stage_tiles.hpp"

namespace kiln::tl {

/// Whether each lane arrives at a pipeline's barriers, and not a warp's first one for all, behind a __syncwarp where
/// that is needed. racecheck of compute-sanitizer does not see that the others' reads and copies come before that
/// arrival, and reports a race; kernels compiled with KILN_DEBUG have it see them.
#if defined(KILN_DEBUG)
inline constexpr bool kEachLaneArrives = true;
#else
inline constexpr bool kEachLaneArrives = false;
#endif

/// How the copy engine fetches a pipeline's tiles: their boxes are dealt out to warps, each of which asks for its own.
/// A warp that has its scheduler alone takes 5 to 10 clocks for an instruction, and a step's addresses take 150, so
/// that a lane computes them for one of 32 steps to come.
template <typename Tiles, typename Parts>
struct BoxLoads;
template <typename Tiles, int... kPart>
struct BoxLoads<Tiles, Sequence<kPart...>> {
  using Loads = typename Tiles::Loads;
  template <int kIndex>
  using Box = BoxCopy<typename Tiles::template Load<kIndex>>;
  /// For all tiles, so that threads have nothing to do with them; or for some, beside those that threads copy.
  static constexpr bool kForAll = (Box<kPart>::kPossible && ...);
  static constexpr bool kForSome = !kForAll && (Box<kPart>::kPossible || ...);
  template <int kIndex>
  static constexpr int kBoxesOf = Box<kIndex>::kPossible ? Box<kIndex>::kBoxes : 0;
  static constexpr int kBoxes = (kBoxesOf<kPart> + ...);
  static constexpr int kOwn = larger(1, (kBoxes + kNumWarps - 1) / kNumWarps);
  static constexpr uint32_t kBoxBytes =
      ((static_cast<uint32_t>(kBoxesOf<kPart>) * Box<kPart>::kBoxBytes) + ...);  ///< of a step
  template <int kIndex>
  static constexpr int first_box() {
    if constexpr (kIndex == 0)
      return 0;
    else
      return first_box<kIndex - 1>() + kBoxesOf<kIndex - 1>;
  }

  bool are_given = true;  ///< maps for all tiles that boxes are for, as far as is known
  bool follow_stores = false;
  /// A bit for each lane's step: boxes bring the tiles that may be boxes; threads have to bring some. Of steps behind
  /// the last the former do not, and the latter neither where all tiles may be.
  uint32_t fitting = 0, lacking = kForAll ? 0 : ~0u;
  BoxMapPlace maps[Tiles::kCount];
  struct Own {
    const BoxMapTable* table;
    uint32_t offset;  ///< in a stage
    BoxPlace place;   ///< at the lane's step
  } own[kOwn];
  uint32_t own_bytes = 0;
  Tuple<typename Tiles::template Copy<kPart>::Lane...> lanes{Tiles::template Copy<kPart>::lane()...};

  /// From the last warp on, so that where there are several warpgroups the first is free for its products.
  int first_own = kNumWarps - 1 - sm90::warp_uniform(static_cast<int>(threadIdx.x) / 32);

  KILN_DEVICE int own_box(int i) const { return first_own + i * kNumWarps; }
  /// body(tile's number, box's number in it) for the tile that box `box` is part of.
  template <int kIndex, typename F>
  KILN_DEVICE static void if_in_tile(int box, F body) {
    if (box >= first_box<kIndex>() && box < first_box<kIndex>() + kBoxesOf<kIndex>) body(box - first_box<kIndex>());
  }

  /// Looks the maps up; take_maps() waits for what is found, and set_places() may come before it.
  KILN_DEVICE void find_maps(const Loads& loads) {
    (find_map<kPart>(loads), ...);
    if (sm90::is_elected()) (prefetch<kPart>(), ...);
  }
  KILN_DEVICE void take_maps() {
    int state = 0;
    (take_map<kPart>(state), ...);
    state = agreed(state);
    follow_stores = (state & kFollowsStores) != 0;
    if ((state & kIsMissing) != 0) {
      are_given = false;
      lacking |= fitting;
      fitting = 0;
    }
  }
  /// Of step `first` and those behind it, one in each lane.
  template <typename MakeLoads>
  KILN_DEVICE void set_places(MakeLoads& make_loads, int first, int num_steps) {
    const int step = first + static_cast<int>(threadIdx.x % 32);
    const bool is_there = step < num_steps;
    if constexpr (kForAll) {
      const bool fits = are_given && is_there && set_places(make_loads(int64_t{step}));
      fitting = __ballot_sync(0xffffffffu, fits);
      lacking = __ballot_sync(0xffffffffu, is_there && !fits);
    } else if constexpr (kForSome) {
      if (num_steps <= 0) return;
      // By all lanes, since what threads copy may be made by all of them; of that nothing is used here.
      const bool fits = set_places(make_loads(int64_t{is_there ? step : num_steps - 1}));
      fitting = __ballot_sync(0xffffffffu, are_given && is_there && fits);
    }
  }
  KILN_DEVICE bool bring_all() const { return lacking == 0; }
  KILN_DEVICE bool lack(uint32_t lane) const { return (lacking >> lane & 1) != 0; }
  KILN_DEVICE bool fits(uint32_t lane) const { return (fitting >> lane & 1) != 0; }
  /// So many steps, those of the first lanes, have their boxes.
  KILN_DEVICE void leave_out_first(uint32_t steps) { fitting &= ~((1u << steps) - 1); }
  /// Asks for the warp's boxes of lane `lane`'s step.
  KILN_DEVICE void copy(uint32_t lane, uint32_t stage, sm90::Barrier filled, bool is_first) const {
    if (is_first)
      filled.arrive_and_expect(own_bytes);
    else if (kEachLaneArrives)
      filled.arrive();
    copy_own(lane, stage, filled);
  }
  /// Asks for the warp's boxes of lane `lane`'s step, beside which threads copy the other tiles and arrive when those
  /// are there. Whether there are any.
  KILN_DEVICE bool copy_some(uint32_t lane, uint32_t stage, sm90::Barrier filled, bool is_first) const {
    if (!fits(lane)) return false;
    if (is_first && own_bytes != 0) filled.expect(own_bytes);
    copy_own(lane, stage, filled);
    return true;
  }
  /// For warps that copy: the warp's boxes at the lanes' steps, and what is the same in all steps.
  KILN_DEVICE void write_places(CopyOrder& order) const {
    KILN_UNROLL for (int i = 0; i < kOwn; ++i) if (own_box(i) < kBoxes) order.places[threadIdx.x % 32][own_box(i)] =
        own[i].place;
  }
  KILN_DEVICE void write_sources(CopyOrder& order) const {
    KILN_UNROLL for (int i = 0; i < kOwn; ++i) if (own_box(i) < kBoxes) {
      order.offsets[own_box(i)] = own[i].offset;
      order.tables[own_box(i)] = own[i].table;
    }
  }
  /// The tiles of a step that threads copy.
  template <typename MakeLoads>
  KILN_DEVICE void copy_chunks(uint32_t stage, MakeLoads& make_loads, int64_t step, bool boxes_bring_some) const {
    if constexpr (kForSome) {
      // Made for each tile anew, so that what is not copied is not computed.
      (copy_chunks<kPart>(stage, [&] { return make_loads(step); }, boxes_bring_some), ...);
    } else {
      const auto loads = make_loads(step);
      (copy_chunks<kPart>(stage, [&]() -> const auto& { return loads; }, false), ...);
    }
  }

 private:
  static constexpr int kIsMissing = 1, kFollowsStores = 2;  ///< what a lane says of a map

  template <int kIndex>
  KILN_DEVICE void find_map(const Loads& loads) {
    if constexpr (Box<kIndex>::kPossible) maps[kIndex] = Box<kIndex>::find_map(part_of<kIndex>(loads));
  }
  /// Of the warp's boxes, whether there is a map or not.
  template <int kIndex>
  KILN_DEVICE void prefetch() const {
    if constexpr (Box<kIndex>::kPossible)
      KILN_UNROLL for (int i = 0; i < kOwn; ++i)
          if_in_tile<kIndex>(own_box(i), [&](int) { sm90::prefetch(Box<kIndex>::map(maps[kIndex].slot)); });
  }
  template <int kIndex>
  KILN_DEVICE void take_map(int& state) {
    if constexpr (Box<kIndex>::kPossible) {
      state |= (maps[kIndex].is_given() ? 0 : kIsMissing) | (maps[kIndex].follows_stores() ? kFollowsStores : 0);
      KILN_UNROLL for (int i = 0; i < kOwn; ++i) if_in_tile<kIndex>(own_box(i), [&](int box) {
        own[i].table = &Box<kIndex>::table();
        own[i].offset = Tiles::template offset<kIndex>() + Box<kIndex>::offset(box);
        own_bytes += Box<kIndex>::kBoxBytes;
      });
    }
  }
  /// Whether boxes bring their tiles.
  KILN_DEVICE bool set_places(const Loads& loads) {
    bool all_fit = true;
    (set_places<kPart>(loads, all_fit), ...);
    return all_fit;
  }
  template <int kIndex>
  KILN_DEVICE void set_places(const Loads& loads, bool& all_fit) {
    if constexpr (Box<kIndex>::kPossible) {
      const Box<kIndex> tile(part_of<kIndex>(loads));
      KILN_UNROLL for (int i = 0; i < kOwn; ++i)
          if_in_tile<kIndex>(own_box(i), [&](int box) { own[i].place = tile.place(box, maps[kIndex].slot); });
      all_fit &= tile.fits;
      tile.state_lines();
    }
  }
  template <int kIndex, typename GetLoads>
  KILN_DEVICE void copy_chunks(uint32_t stage, GetLoads get_loads, bool boxes_bring_some) const {
    if constexpr (kForSome && Box<kIndex>::kPossible)
      if (__builtin_expect(boxes_bring_some, 1)) return;
    const auto& loads = get_loads();
    TileCopy<typename Tiles::template Load<kIndex>>(part_of<kIndex>(loads))
        .copy_chunks(stage + Tiles::template offset<kIndex>(), part_of<kIndex>(lanes));
  }
  KILN_DEVICE void copy_own(uint32_t lane, uint32_t stage, sm90::Barrier filled) const {
    if (own_bytes == 0) return;
    KILN_UNROLL for (int i = 0; i < kOwn; ++i) {
      const BoxPlace place = own[i].place.of_lane(static_cast<int>(lane));
      if (own_box(i) < kBoxes && sm90::is_elected()) place.copy(stage + own[i].offset, *own[i].table, filled);
    }
  }
};

}  // namespace kiln::tl
