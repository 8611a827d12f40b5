#pragma once

#include "compiler/tl/memory.hpp"
#include "compiler/tl/tuple.hpp"

namespace kiln::tl {

/// Which way a loaded tile lies in the GPU's shared memory: as in memory (along rows, or along columns where those are
/// contiguous by type), or as said.
enum class TileLines { as_in_memory, rows, columns };

/// A load that a pipeline makes when it is time: addresses and a mask.
template <AddressTile P, typename M, TileLines kTileLines>
struct DeferredLoad {
  using value_type = pointee_t<P>;
  using shape = typename AccessShape<P, M>::type;
  P pointers;
  M mask;
};

/// What tl::load(pointers, mask) takes, to be loaded by a pipeline; elements outside the mask are 0. The mask is
/// symbolic or a bool. Any strides and alignment are right. Fastest: rows or columns that are contiguous by type
/// (Constant<1>, as of tl::arange or, for rows, tl::trans) and 16-byte aligned.
///
/// Lines that are named turn a tile of float on its way, at no great cost, and make it take padded_tile_bytes: dot in
/// full precision reads a fastest in columns and b in rows. Other dots do not read such tiles. Nothing changes on the
/// CPU.
template <TileLines kLines = TileLines::as_in_memory, AddressTile P, typename M>
KILN_DEVICE auto deferred_load(const P& pointers, const M& mask) {
  static_assert(AffineTile<decltype(pointers.offsets)>, "deferred_load: symbolic addresses, pointer + symbolic index");
  static_assert(!ValueTile<M>, "deferred_load: the mask is symbolic or a bool");
  static_assert(P::shape::kRank == 2, "deferred_load: a tile of two dimensions; apply expand_dims first");
  static_assert(kLines == TileLines::as_in_memory || is_same<pointee_t<P>, float>,
                "deferred_load: only tiles of float lie otherwise than in memory");
  using S = typename AccessShape<P, M>::type;
  auto form = mask_for<S>(mask);
  return DeferredLoad<P, decltype(form), kLines>{pointers, form};
}
template <TileLines kLines = TileLines::as_in_memory, AddressTile P>
KILN_DEVICE auto deferred_load(const P& pointers) {
  return deferred_load<kLines>(pointers, true);
}

}  // namespace kiln::tl

#if defined(KILN_TARGET_CUDA)
#include "compiler/tl/cuda/pipeline_steps.hpp"
#else
#include "compiler/tl/cpu/pipeline_steps.hpp"
#endif

namespace kiln::tl {

/// body(tile, ...) for step = 0 ... num_steps - 1 in order, with the tiles that loads(step) defers: one DeferredLoad or
/// a Tuple of up to four. While a step's body runs, the loads of steps after it are on their way: of the next one with
/// two stages, of kNumStages - 2 with more; one stage waits for each.
///
///     tl::pipeline<NUM_STAGES>(
///         num_steps,
///         [&](int64_t step) {
///           return tl::Tuple{tl::deferred_load(a_pointers(step), a_mask(step)),
///                            tl::deferred_load(b_pointers(step), b_mask(step))};
///         },
///         [&](const auto& a, const auto& b) { acc = tl::dot(a, b, acc); });
///
/// `loads` may be called for a step once, ahead of time, and never for a step outside the range. The tiles are operands
/// of tl::dot, good until body returns. On the GPU they lie in kNumStages places of dynamic shared memory each: a
/// launch asks for pipeline_shared_bytes (cuda/pipeline_places.hpp), the most that one pipeline of the kernel needs.
template <int kNumStages, typename Loads, typename Body>
KILN_DEVICE void pipeline(int64_t num_steps, Loads loads, Body body) {
  static_assert(kNumStages >= 1, "pipeline: one stage or more");
  run_pipeline<kNumStages>(num_steps, loads, body);
}

}  // namespace kiln::tl
