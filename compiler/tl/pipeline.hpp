#pragma once

#include "compiler/tl/deferred_load.hpp"
#include "compiler/tl/dot.hpp"
#include "compiler/tl/tuple.hpp"

#if defined(KILN_TARGET_CUDA)
#include "compiler/tl/cuda/chained_pipeline.hpp"
#include "compiler/tl/cuda/pipeline_steps.hpp"
#else
#include "compiler/tl/cpu/pipeline_steps.hpp"
#endif

namespace kiln::tl {

/// body(tile, ...) for step = 0 ... num_steps - 1 in order, with the tiles that loads(step) defers: one DeferredLoad or
/// a Tuple of up to eight. While a step's body runs, the loads of steps after it are on their way: of the next one with
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
  constexpr bool kDefers = is_deferred<remove_cvref_t<decltype(loads(num_steps))>>;
  static_assert(kDefers, "pipeline: what loads returns is a deferred_load or a Tuple of them, whose tiles body gets");
  if constexpr (kDefers) run_pipeline<kNumStages>(num_steps, loads, body);
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
  constexpr bool kDefers = is_deferred<remove_cvref_t<decltype(loads(num_tiles, num_steps))>>;
  static_assert(kDefers, "pipeline: what loads returns is a deferred_load or a Tuple of them, whose tiles body gets");
  if constexpr (kDefers) run_tiles<kNumStages>(num_tiles, num_steps, loads, body, end);
}

/// Two products a step, of which the second takes what `between` makes of the first's (attention's scores, weights and
/// sums of values): for step = 0 ... num_steps - 1 in order
///
///     const auto sums = first(tiles of first_loads(step)...);  // returns the sums of a dot that it begins
///     between(sums);                                            // complete ones
///     second(tiles of second_loads(step)...);
///
/// `first` and `second` begin dots and read nothing that another has made, but for what `between` leaves to `second`.
/// Beside a program with warps that copy (copy_warps, on sm_90a) `second` of a step is begun behind `first` of the next
/// one, and `between` of that one computed while both go on; warpgroups take turns. There sums that `second` adds to
/// are waited for with tl::dot_wait(sums, what was computed) in `between`, as late as can be.
///
///     tl::chained_pipeline<2>(num_steps, keys, values, [&](const auto& k) { return tl::dot(q, k); },
///                             [&](const auto& scores) { ...; p = tl::cast<T>(weights); },
///                             [&](const auto& v) { acc = tl::dot(p, v, acc); });
///
/// Loads are as those of tl::pipeline, eight together at most. There are fewer than 2^31 steps.
template <int kNumStages, typename FirstLoads, typename SecondLoads, typename First, typename Between, typename Second>
KILN_DEVICE void chained_pipeline(int64_t num_steps, FirstLoads first_loads, SecondLoads second_loads, First first,
                                  Between between, Second second) {
  static_assert(kNumStages >= 2, "chained_pipeline: two stages or more");
#if defined(KILN_TARGET_CUDA)
  if constexpr (kNumCopyWarps > 0)
    return run_chained_pipeline<kNumStages>(static_cast<int>(num_steps), first_loads, second_loads, first, between,
                                            second);
#endif
  constexpr int kOfFirst = kParts<decltype(first_loads(int64_t{0}))>, kFirst = kOfFirst == 0 ? 1 : kOfFirst;
  constexpr int kOfSecond = kParts<decltype(second_loads(int64_t{0}))>, kSecond = kOfSecond == 0 ? 1 : kOfSecond;
  pipeline<kNumStages>(
      num_steps, [&](int64_t step) { return joined(first_loads(step), second_loads(step)); },
      [&](const auto&... step_tiles) {
        const Tuple tiles{step_tiles...};
        between(dot_wait(call_with_parts<0>(first, tiles, make_sequence<kFirst>())));
        call_with_parts<kFirst>(second, tiles, make_sequence<kSecond>());
      });
}

}  // namespace kiln::tl
