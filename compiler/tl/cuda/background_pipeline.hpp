#pragma once

#include "compiler/tl/cuda/box_loads.hpp"

namespace kiln::tl {

/// One step's uses of its tiles. The first products set off the loads of a later step: before them these would delay
/// them.
template <typename Begun>
struct PipelineStep {
  static constexpr bool kThreadsMayMeet = true;
  Begun& begun;
  bool loads_started = false;
  bool has_products = false;  ///< that go on
  bool has_values = false;    ///< lanes have read tiles

  KILN_DEVICE void values_read() { has_values = true; }
  KILN_DEVICE void start_loads() {
    if (!loads_started) begun();
    loads_started = true;
  }
  KILN_DEVICE void products_begun() {
    start_loads();
    has_products = true;
  }
};

/// What ends the tiles of a pipeline that has none.
struct NoTiles {};

/// A pipeline whose bodies multiply by wgmma. A step's products may go on while the next one's begin; when they are
/// over, its place is filled anew. Where the host gave maps for all loads that may be boxes (BoxMapTable) the copy
/// engine fetches those; elsewhere, and for tiles that are no boxes, all threads copy.
///
/// What cp.async wrote is seen by wgmma once it has been waited for and a barrier passed (CUTLASS and Triton rely on
/// that too); a proxy fence here would wait for the copies that are still on their way: 20% of a bf16 product.
template <int kNumStages, typename Tiles, typename Loads, typename Body, typename End>
KILN_DEVICE void run_background_pipeline(uint32_t places_begin, int64_t steps, int tiles, int steps_of_tile,
                                         Loads& loads, Body& body, End& end) {
  // The place that is filled while a step's products go on: with two places that of the step before, whose products
  // are waited for first; with four or more that of two steps before, whose are over. Three are too few to spare one:
  // there it is that of the step before, once its products are over, behind the step's body.
  constexpr bool kLoadsBehindProducts = kNumStages != 3, kLoadsBeforeWait = kNumStages > 3;
  constexpr int kAhead = kNumStages > 3 ? kNumStages - 2 : kNumStages - 1;
  using Boxes = BoxLoads<Tiles, remove_cvref_t<decltype(Tiles::kAll)>>;
  // Of two places threads fill the other one in front of the products, during which the copies then arrive.
  constexpr bool kCopiesFirst = kNumStages == 2 && !Boxes::kForAll;
  using Ring = sm90::RingPosition<kNumStages>;
  __shared__ alignas(8) uint64_t barriers[2 * kNumStages];
  // Shuffled, since ptxas computes a thread's number and what follows from it anew in each step where it sees how.
  const uint32_t barriers_begin =
      static_cast<uint32_t>(sm90::warp_uniform(static_cast<int>(shared_window_address(barriers))));
  const uint32_t begin = static_cast<uint32_t>(sm90::warp_uniform(static_cast<int>(places_begin)));
  const int own_lane = static_cast<int>(threadIdx.x % 32);
  const bool is_first = __shfl_sync(0xffffffffu, own_lane, own_lane) == 0;
  const bool arrives = kEachLaneArrives || is_first;
  const auto filled = [&](uint32_t slot) { return sm90::Barrier{barriers_begin + slot * sm90::Barrier::kBytes}; };
  const auto emptied = [&](uint32_t slot) { return filled(slot + kNumStages); };
  const int num_steps = steps < 0 ? 0 : static_cast<int>(steps);

  Boxes boxes;
  // A barrier is done with before the next is begun, so that each warp takes its share of them.
  const auto each_own_barrier = [&](auto body) {
    KILN_UNROLL for (int i = 0; i < 2 * kNumStages; i += kNumWarps) {
      const int barrier = i + boxes.first_own;
      if (is_first && barrier < 2 * kNumStages) body(filled(static_cast<uint32_t>(barrier)));
    }
  };
  static_assert(kNumStages < 32, "tl::pipeline: fewer than 32 stages");
  constexpr bool kHasBoxes = Boxes::kForAll || Boxes::kForSome;
  if constexpr (kHasBoxes) {
    if (num_steps > 0) boxes.find_maps(loads(0));
  }
  sm90::products_wait<0>();
  each_own_barrier([](sm90::Barrier barrier) { barrier.init(kNumWarps * (kEachLaneArrives ? 32 : 1)); });
  sm90::barriers_ready();
  // Parity 1 is that of a phase before the first, which has ended.
  Ring used, left, filling{0, 1};
  bool values_read = false;  // by lanes, for which the warp's first one says that they are done
  // Of the first steps, whose products are not there yet, only the loads. A loop of their own would compile those a
  // second time.
  int step = -kAhead;
  uint32_t lane = 32;  // of the next step, whose place it holds
  // At the start all places are free: boxes of as many steps are asked for at once, in one loop, since each jump to
  // code that has not run takes 200 clocks. Behind the first places, which take as long as barriers and maps.
  const auto begin_loads = [&] {
    if constexpr (kHasBoxes) {
      if (num_steps > 0) boxes.take_maps();
    }
    if (boxes.are_given && boxes.follow_stores)
      sm90::all_writes_ready();
    else
      sm90::writes_ready();
    sync_threads();
    if (boxes.bring_all()) {
      KILN_NO_UNROLL for (uint32_t place = 0; place < kNumStages; ++place) {
        if (boxes.fits(place)) boxes.copy(place, begin + place * Tiles::kBytes, filled(place), is_first);
      }
      boxes.leave_out_first(kNumStages);
      lane = kAhead;
      step = 0;
      filling.advance(kAhead);
    }
    wait_for_copies<0>();  // of operands (pipeline_operand)
    sync_threads();
  };
  const auto run_steps_to = [&](int stop) {
    KILN_NO_UNROLL while (step < stop) {
      if (lane == 32) {
        lane = 0;
        boxes.set_places(loads, step + kAhead, num_steps);
        if (step == -kAhead) begin_loads();
      }
      KILN_NO_UNROLL for (; lane < 32 && step < stop; ++lane, ++step) {
        const int next = step + kAhead;
        const uint32_t stage = begin + filling.slot * Tiles::kBytes;
        const auto load_boxes = [&] {
          if (!Boxes::kForAll || !boxes.fits(lane)) return;
          if (boxes.own_bytes != 0) emptied(filling.slot).wait(filling.parity);
          boxes.copy(lane, stage, filled(filling.slot), is_first);
        };
        const auto leave = [&] {
          if (values_read) __syncwarp();
          if (step > 0) {
            if (arrives) emptied(left.slot).arrive();
            left.advance();
          }
        };
        const auto load_rest = [&] {
          if (!kLoadsBehindProducts && step >= 0) load_boxes();
          if (__builtin_expect(boxes.bring_all(), 1)) return;
          if (!boxes.lack(lane) || (!Boxes::kForAll && next >= num_steps)) return;
          emptied(filling.slot).wait(filling.parity);
          bool boxes_bring_some = false;
          if constexpr (Boxes::kForSome)
            boxes_bring_some = boxes.copy_some(lane, stage, filled(filling.slot), is_first);
          boxes.copy_chunks(stage, loads, next, boxes_bring_some);
          arrive_behind_copies(filled(filling.slot).address);
          __syncwarp();
          if (arrives) filled(filling.slot).arrive();
        };
        const auto begin_step = [&] {
          filled(used.slot).wait(used.parity);
          if constexpr (kNumStages == 2) {
            sm90::products_wait<0>();
            leave();
          }
        };
        bool has_products = false;
        const auto run_body = [&] {
          auto begun = [&] {
            if constexpr (kLoadsBehindProducts) load_boxes();
          };
          PipelineStep<decltype(begun)> products{begun};
          Tiles::call(begin + used.slot * Tiles::kBytes, &products, body, Tiles::kAll);
          used.advance();
          has_products = products.has_products;
          if (kLoadsBehindProducts && !products.loads_started) load_boxes();
          values_read |= products.has_values;
        };
        if constexpr (kCopiesFirst) {
          if (step >= 0) begin_step();
          load_rest();
          if (step >= 0) run_body();
        } else if (step < 0) {
          load_boxes();
        } else {
          begin_step();
          run_body();
        }
        if constexpr (kLoadsBeforeWait) load_rest();
        if constexpr (kNumStages > 2) {
          // The products begun last may go on through the next step, those of the step before may not. Not at the
          // loop's head, where ptxas 13.0 makes products half as fast, and not behind the first products, where it
          // makes those of some kernels wait for each other.
          if (step >= 0) {
            if (has_products)
              sm90::products_wait<1>();
            else
              sm90::products_wait<0>();
            leave();
          }
        }
        if constexpr (!kLoadsBeforeWait && !kCopiesFirst) load_rest();
        filling.advance();
      }
    };
  };
  if constexpr (is_same<End, NoTiles>) {
    run_steps_to(num_steps);
  } else {
    KILN_NO_UNROLL for (int tile = 0; tile < tiles; ++tile) {
      run_steps_to((tile + 1) * steps_of_tile);
      // In front of the branch back: ptxas makes products wait for each other that are in flight on one of two paths.
      sm90::products_wait<0>();
      end(int64_t{tile});
    }
  }
  sm90::products_wait<0>();
  sync_threads();  // whatever comes next may use places and barriers
  each_own_barrier([](sm90::Barrier barrier) { barrier.invalidate(); });
}

}  // namespace kiln::tl
