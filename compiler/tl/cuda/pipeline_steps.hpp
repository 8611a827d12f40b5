#pragma once

#include "compiler/tl/cuda/background_pipeline.hpp"
#include "compiler/tl/cuda/dynamic_shared.hpp"
#include "compiler/tl/cuda/program.hpp"
#include "compiler/tl/cuda/stage_tiles.hpp"
#include "compiler/tl/debug.hpp"

namespace kiln::tl {

/// A pipeline of the steps of several tiles, steps_of_tile each: end(tile) behind each one's last. NoTiles: of none.
template <int kNumStages, typename Loads, typename Body, typename End>
KILN_DEVICE void run_steps(int64_t num_steps, int tiles, int steps_of_tile, Loads& loads, Body& body, End& end) {
  using Tiles = StageTiles<decltype(loads(int64_t{0}))>;
  constexpr uint32_t kBytes = pipeline_shared_bytes(kNumStages, Tiles::kBytes);
  // The compiler reads this in the PTX (Artifact::dynamic_shared_bytes).
  asm volatile("// kiln.dynamic_shared_bytes %0" ::"n"(kBytes));
  device_assert(given_dynamic_shared_bytes() >= kBytes,
                "the launch gives tl::pipeline less than pipeline_shared_bytes");
  const uint32_t begin = shared_window_address(dynamic_shared_bytes());
  if constexpr (Tiles::may_use_wgmma() && kNumStages > 1)
    return run_background_pipeline<kNumStages, Tiles>(begin, num_steps, tiles, steps_of_tile, loads, body, end);
  StageRing<Tiles::kBytes, kNumStages> filled(begin), used(begin);
  int left = steps_of_tile, tile = 0;
  if constexpr (!is_same<End, NoTiles>) {
    if (steps_of_tile <= 0) {
      KILN_NO_UNROLL for (; tile < tiles; ++tile) end(int64_t{tile});
    }
  }
  // The first kNumStages - 1 rounds only start loads: a loop of their own would compile those a second time.
  KILN_NO_UNROLL for (int64_t step = 1 - kNumStages; step < num_steps; ++step) {
    if constexpr (kNumStages > 1) wait_for_copies<kNumStages - 2>();
    // All threads' loads of this step are there, and all are done with the step before, whose place is filled next.
    sync_threads();
    const auto load_ahead = [&] {
      if (step + (kNumStages - 1) < num_steps) Tiles::copy(filled.place, loads(step + (kNumStages - 1)), Tiles::kAll);
      end_copy_group();
      filled.advance();
    };
    // With more than two stages something is on its way in any case, and the body's products may start at once: worth
    // 3% of a bf16 product on an H200. Turned tiles are many small copies, which queue up: half of the warps multiply
    // while the others copy (up to 9% of a f32 product).
    // Copies behind which all threads meet would meet the body's barriers.
    const bool copies_first =
        kNumStages <= 2 || (Tiles::kNamesLines && !Tiles::kThreadsMeet && threadIdx.x / 32 % 2 == 1);
    if (copies_first) load_ahead();
    if constexpr (kNumStages == 1) {
      wait_for_copies<0>();
      sync_threads();
    }
    if (step >= 0) {
      Tiles::call(used.place, static_cast<NoStep*>(nullptr), body, Tiles::kAll);
      used.advance();
      if constexpr (kHasWgmma) sm90::products_wait<0>();
    }
    if (!copies_first) load_ahead();
    if constexpr (!is_same<End, NoTiles>) {
      if (step >= 0 && --left == 0) {
        end(int64_t{tile++});
        left = steps_of_tile;
      }
    }
  }
}

template <int kNumStages, typename Loads, typename Body>
KILN_DEVICE void run_pipeline(int64_t num_steps, Loads& loads, Body& body) {
  NoTiles none;
  run_steps<kNumStages>(num_steps, 0, 0, loads, body, none);
}

template <int kNumStages, typename Loads, typename Body, typename End>
KILN_DEVICE void run_tiles(int64_t num_tiles, int64_t num_steps, Loads& loads, Body& body, End& end) {
  // What decides how often loops run is the warp's to ptxas, or else nothing that they change is, descriptors among it.
  const int tiles = agreed(static_cast<int>(num_tiles)), steps = agreed(static_cast<int>(num_steps));
  auto loads_of_all = [&](int64_t step) {
    int tile = 0;
    if (tiles != 1) tile = static_cast<int>(static_cast<unsigned int>(step) / static_cast<unsigned int>(steps));
    return loads(int64_t{tile}, int64_t{static_cast<int>(step) - tile * steps});
  };
  run_steps<kNumStages>(int64_t{tiles} * steps, tiles, steps, loads_of_all, body, end);
}

}  // namespace kiln::tl
