#pragma once

#include "compiler/tl/deferred_load.hpp"
#include "compiler/tl/tuple.hpp"

#if defined(KILN_TARGET_CUDA)
#include "compiler/tl/cuda/pipeline_steps.hpp"
#else
#include "compiler/tl/cpu/pipeline_steps.hpp"
#endif

namespace kiln::tl {

/// body(tile, ...) for step = 0 ... num_steps - 1 in order, with the tiles that loads(step) defers: one DeferredLoad or
/// a Tuple of up to four. While a step's body runs, the loads of steps after it are on their way: of the next one with
/// two stages, of two or more with more; one stage waits for each.
///
///     tl::pipeline<NUM_STAGES>(
///         num_steps,
///         [&](int64_t step) {
///           return tl::Tuple{tl::deferred_load(a_pointers(step), a_mask(step)),
///                            tl::deferred_load(b_pointers(step), b_mask(step))};
///         },
///         [&](const auto& a, const auto& b) { acc = tl::dot(a, b, acc); });
///
/// What `loads` returns follows from the step alone. It is called ahead of time, more than once or by a lane for a step
/// of its own, so that it takes arithmetic, loads of numbers and deferred loads, and of other tiles only those of row
/// or column numbers that its addresses are made of; never for a step outside the range. The tiles are operands of
/// tl::dot and, read, values, good until body returns. On the GPU they lie in kNumStages places of dynamic shared
/// memory each, which a launch gives the kernel by itself (Artifact::dynamic_shared_bytes).
template <int kNumStages, typename Loads, typename Body>
KILN_DEVICE void pipeline(int64_t num_steps, Loads loads, Body body) {
  static_assert(kNumStages >= 1, "pipeline: one stage or more");
  run_pipeline<kNumStages>(num_steps, loads, body);
}

/// The same for several tiles of a program, one after the other: body(...) for each of a tile's steps, with what
/// loads(tile, step) defers, then end(tile). The first loads of the next tile are on their way while `end` stores this
/// one, which hides the start of a tile; they must not read what an `end` writes.
///
///     tl::pipeline<NUM_STAGES>(num_tiles, num_steps, [&](int64_t tile, int64_t step) { return tl::Tuple{...}; },
///                              [&](const auto& a, const auto& b) { acc = tl::dot(a, b, acc); },
///                              [&](int64_t tile) {
///                                tl::store(out + offsets(tile), tl::cast<T>(acc));
///                                acc = tl::dot_accumulator<T, BLOCK_M, BLOCK_N>();
///                              });
///
/// There are fewer than 2^31 steps of all tiles together.
template <int kNumStages, typename Loads, typename Body, typename End>
KILN_DEVICE void pipeline(int64_t num_tiles, int64_t num_steps, Loads loads, Body body, End end) {
  static_assert(kNumStages >= 1, "pipeline: one stage or more");
  run_tiles<kNumStages>(num_tiles, num_steps, loads, body, end);
}

}  // namespace kiln::tl
