#pragma once

#include "compiler/tl/cuda/box_loads.hpp"
#include "compiler/tl/cuda/copy_warps.hpp"
#include "compiler/tl/cuda/dynamic_shared.hpp"
#include "compiler/tl/cuda/in_flight.hpp"
#include "compiler/tl/debug.hpp"

namespace kiln::tl {

/// Uses of tiles by one step of a chained pipeline. Warpgroups do not begin their products at the same time, so that
/// all of a program's threads cannot exchange anything meanwhile.
struct ChainedStep {
  static constexpr bool kThreadsMayMeet = false;
  int products = 0;  ///< dots begun, each a group of products or more
  template <typename T = void>
  KILN_DEVICE void values_read() {
    static_assert(!is_same<T, void>,
                  "chained_pipeline: beside warps that copy, tiles are operands of dot as they are; what is cast or "
                  "turned first takes copy_warps 0");
  }
  KILN_DEVICE void start_loads() {}
  KILN_DEVICE void products_begun() { ++products; }
};

/// Warpgroups take turns to begin a step's products: while those of one go on, another computes what stands between
/// them (FlashAttention-3's ping-pong, Shah et al., 2024).
struct WarpgroupTurns {
  static constexpr int kGroups = kNumWarps / 4, kThreads = 2 * sm90::kWarpgroupThreads;
  int group = sm90::warp_uniform(static_cast<int>(threadIdx.x) / sm90::kWarpgroupThreads);

  KILN_DEVICE static constexpr int name(int group) { return 1 + group; }
  KILN_DEVICE void begin() const {
    if (kGroups > 1 && group == kGroups - 1) sm90::named_arrive(name(0), kThreads);
  }
  KILN_DEVICE void take() const {
    if constexpr (kGroups > 1) sm90::named_sync(name(group), kThreads);
  }
  /// To the next group; behind the last step the last group gives it to nobody.
  KILN_DEVICE void pass(bool is_last_step) const {
    if constexpr (kGroups > 1) {
      if (group < kGroups - 1)
        sm90::named_arrive(name(group + 1), kThreads);
      else if (!is_last_step)
        sm90::named_arrive(name(0), kThreads);
    }
  }
};

/// A chained pipeline of a program beside which warps copy. Its places have the first tiles of a step and the second
/// ones of the step before: both are used at once, and left at once.
template <int kNumStages, typename FirstLoads, typename SecondLoads, typename First, typename Between, typename Second>
KILN_DEVICE void run_chained_pipeline(int num_steps, FirstLoads& first_loads, SecondLoads& second_loads, First& first,
                                      Between& between, Second& second) {
  if (num_steps <= 0) return wait_for_copies<0>();  // of operands (pipeline_operand)
  // At both ends one half is loaded for nothing, rather than that its addresses were other ones.
  const auto loads = [&](int64_t at) {
    return joined(first_loads(at < num_steps ? at : num_steps - int64_t{1}),
                  second_loads(at > 0 ? at - 1 : int64_t{0}));
  };
  using Tiles = StageTiles<decltype(loads(int64_t{0}))>;
  using FirstTiles = StageTiles<decltype(first_loads(int64_t{0}))>;
  using SecondTiles = StageTiles<decltype(second_loads(int64_t{0}))>;
  using Boxes = BoxLoads<Tiles, remove_cvref_t<decltype(Tiles::kAll)>>;
  constexpr bool kCanOrder = Boxes::kForAll && Boxes::kBoxes <= CopyOrder::kMostBoxes;
  constexpr int kBatch = CopyOrder::kMostSteps;
  constexpr uint32_t kBytes = pipeline_shared_bytes(kNumStages, Tiles::kBytes);
  // The compiler reads this in the PTX (Artifact::dynamic_shared_bytes).
  asm volatile("// kiln.dynamic_shared_bytes %0" ::"n"(kBytes));
  device_assert(given_dynamic_shared_bytes() >= kBytes,
                "the launch gives tl::chained_pipeline less than pipeline_shared_bytes");
  __shared__ alignas(8) uint64_t barriers[2 * kNumStages];
  const uint32_t filled_begin =
      static_cast<uint32_t>(sm90::warp_uniform(static_cast<int>(shared_window_address(barriers))));
  const uint32_t begin =
      static_cast<uint32_t>(sm90::warp_uniform(static_cast<int>(shared_window_address(dynamic_shared_bytes()))));
  const auto filled = [&](uint32_t slot) { return sm90::Barrier{filled_begin + slot * sm90::Barrier::kBytes}; };
  const auto emptied = [&](uint32_t slot) { return filled(slot + kNumStages); };
  const bool is_first_lane = threadIdx.x % 32 == 0;
  const int steps = num_steps + 1;

  Boxes boxes;
  if constexpr (kCanOrder) boxes.find_maps(loads(0));
  if (threadIdx.x == 0) {
    KILN_UNROLL for (uint32_t slot = 0; slot < kNumStages; ++slot) {
      filled(slot).init(1);
      emptied(slot).init(kNumWarps);
    }
  }
  sm90::barriers_ready();
  if constexpr (kCanOrder) boxes.take_maps();
  if (boxes.are_given && boxes.follow_stores) sm90::all_writes_ready();

  sm90::RingPosition<kNumStages> at;
  // Whether the copy engine brings the tiles of the batch of steps at hand, and of the next; where it does not, all
  // threads do, step by step.
  bool is_brought = false, next_is_brought = false;
  uint32_t orders = 0;  // of this pipeline and those before it
  const auto wait_for_order = [&] {
    if (orders > 0) order_done().wait((orders - 1) & 1);
  };
  // What is the same in all orders; their registers are free behind it.
  const auto begin_orders = [&] {
    orders = copy_mail().orders;
    wait_for_order();
    CopyOrder& order = copy_mail().order;
    boxes.write_sources(order);
    if (threadIdx.x == 0) {
      order.num_stages = kNumStages;
      order.stage_bytes = Tiles::kBytes;
      order.box_bytes = Boxes::kBoxBytes;
      order.stages = begin;
      order.filled = filled(0).address;
      order.emptied = emptied(0).address;
      order.num_boxes = Boxes::kBoxes;
    }
  };
  // Of the batch that begins with step `from`.
  const auto order_batch = [&](int from) {
    next_is_brought = false;
    if constexpr (kCanOrder) {
      boxes.set_places(loads, from, steps);
      if (!boxes.bring_all()) return;
      next_is_brought = true;
      wait_for_order();
      ++orders;
      CopyOrder& order = copy_mail().order;
      boxes.write_places(order);
      if (threadIdx.x == 0) {
        order.steps = static_cast<uint32_t>(steps - from < kBatch ? steps - from : kBatch);
        order.slot = static_cast<uint32_t>(from) % kNumStages;
        order.parity = (static_cast<uint32_t>(from) / kNumStages & 1) ^ 1;
      }
      __syncwarp();
      if (is_first_lane) order_written().arrive();
    }
  };
  const auto copy_step = [&](int step) {
    sync_threads();
    boxes.copy_chunks(begin + at.slot * Tiles::kBytes, loads, step, false);
    end_copy_group();
    wait_for_copies<0>();
    sm90::writes_ready();
    sync_threads();
    if (threadIdx.x == 0) filled(at.slot).arrive();
  };

  sync_threads();  // barriers are there for those that copy
  if constexpr (kCanOrder) begin_orders();
  const WarpgroupTurns turns;
  KILN_NO_UNROLL for (int step = -1; step < steps; ++step) {
    if ((step & (kBatch - 1)) == kBatch - 1 && step + 1 < steps) order_batch(step + 1);
    if (step < 0) {
      is_brought = next_is_brought;
      wait_for_copies<0>();  // of operands (pipeline_operand)
      sm90::writes_ready();  // and of those that threads have put there
      sync_threads();
      turns.begin();
      continue;
    }
    if (__builtin_expect(!is_brought, 0)) copy_step(step);
    filled(at.slot).wait(at.parity);
    const uint32_t stage = begin + at.slot * Tiles::kBytes;
    ChainedStep of_first, of_second;
    const auto call_first = [&] { return FirstTiles::call(stage, &of_first, first, FirstTiles::kAll); };
    const auto call_second = [&] {
      SecondTiles::call(stage + FirstTiles::kBytes, &of_second, second, SecondTiles::kAll);
    };
    // Each way is complete in itself: ptxas makes products wait for each other that go on where ways meet.
    turns.take();
    if (step == 0) {
      const auto sums = call_first();
      turns.pass(false);
      between(dot_wait(sums));
      sm90::products_wait<0>();
    } else if (step == num_steps) {
      call_second();
      turns.pass(true);
      sm90::products_wait<0>();
    } else {
      const auto sums = call_first();
      call_second();
      turns.pass(false);
      if (of_second.products == 1)
        between(dot_wait<1>(sums));
      else if (of_second.products == 2)
        between(dot_wait<2>(sums));
      else
        between(dot_wait(sums));
      sm90::products_wait<0>();
    }
    if (is_first_lane) emptied(at.slot).arrive();
    at.advance();
    if ((step & (kBatch - 1)) == kBatch - 1) is_brought = next_is_brought;
  }
  // Not with each order: others may not have read it yet.
  if (threadIdx.x == 0) copy_mail().orders = orders;
  sync_threads();  // whatever comes next may use places and barriers
  if (threadIdx.x == 0) {
    KILN_UNROLL for (uint32_t slot = 0; slot < 2 * kNumStages; ++slot) filled(slot).invalidate();
  }
}

}  // namespace kiln::tl
