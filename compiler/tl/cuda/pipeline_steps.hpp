#pragma once

#include "compiler/tl/cuda/tile_copy.hpp"
#include "compiler/tl/debug.hpp"

namespace kiln::tl {

/// What one step of a pipeline loads: a DeferredLoad or a Tuple of them, one behind the other in shared memory.
template <typename Loads>
struct StageTiles {
  static constexpr int kCount = larger(1, kParts<Loads>);
  template <int kPart>
  using Copy = TileCopy<remove_cvref_t<decltype(part_of<kPart>(*static_cast<const Loads*>(nullptr)))>>;
  template <int kPart>
  static constexpr int offset() {
    if constexpr (kPart == 0)
      return 0;
    else
      return offset<kPart - 1>() + Copy<kPart - 1>::Shared::kBytes;
  }
  static constexpr int kBytes = offset<kCount>();
  static constexpr bool kNamesLines = Copy<0>::Shared::kHasPadding;

  /// Whether dots of these tiles may be wgmma's. A guess at types alone: the first two, where they are a's and b's, say
  /// how many rows a product has.
  static constexpr bool may_use_wgmma() {
    if constexpr (!kHasWgmma || kNumWarps % 4 != 0 || sizeof(typename Copy<0>::T) != 2) {
      return false;
    } else if constexpr (kCount > 1) {
      using A = typename Copy<0>::S;
      return A::kColumns != Copy<1>::S::kRows || A::kRows % 64 == 0;
    } else {
      return true;
    }
  }

  /// All that can be known of the copies before their place is free.
  KILN_DEVICE static auto prepare(const Loads& loads) {
    return map_parts([](const auto& load) { return TileCopy<remove_cvref_t<decltype(load)>>(load); }, loads);
  }
  template <typename Copies, int... kPart>
  KILN_DEVICE static void copy(uint32_t stage, const Copies& copies, Sequence<kPart...>) {
    if constexpr ((Copy<kPart>::kHasFastPath && ...)) {
      // One question for all tiles.
      if (__builtin_expect((part_of<kPart>(copies).is_whole & ...), 1))
        (part_of<kPart>(copies).template copy_whole<16>(stage + offset<kPart>()), ...);
      else
        (part_of<kPart>(copies).template copy<false>(stage + offset<kPart>()), ...);
    } else {
      (part_of<kPart>(copies).copy(stage + offset<kPart>()), ...);
    }
  }
  template <typename Step, typename Body, int... kPart>
  KILN_DEVICE static void call(uint32_t stage, Step* step, Body& body, Sequence<kPart...>) {
    body(typename Copy<kPart>::template SharedIn<Step>{stage + offset<kPart>(), step}...);
  }
};

KILN_DEVICE unsigned char* dynamic_shared_bytes() {
  extern __shared__ __align__(1024) unsigned char kiln_dynamic_shared[];
  return kiln_dynamic_shared;
}

KILN_DEVICE uint32_t given_dynamic_shared_bytes() {
  uint32_t bytes;
  asm("mov.u32 %0, %%dynamic_smem_size;" : "=r"(bytes));
  return bytes;
}

/// The ring of places that a pipeline's tiles take turns in.
template <uint32_t kStageBytes, int kNumStages>
struct StageRing {
  uint32_t begin, place;

  KILN_DEVICE explicit StageRing(uint32_t first) : begin(first), place(first) {}
  KILN_DEVICE void advance() {
    place = place + kStageBytes == begin + kNumStages * kStageBytes ? begin : place + kStageBytes;
  }
};

/// One step's products, of which the first set off the loads of a later step, which are copied while the products go
/// on. Before the products the copies would delay them: 96 copies of a warp's 512 bytes, which a step of 128 x 256 x 64
/// has, take 400 clocks to issue.
template <typename LoadAhead>
struct PipelineStep {
  const LoadAhead& load_ahead;
  bool has_loaded = false;

  KILN_DEVICE void products_begun() {
    if (!has_loaded) load_ahead();
    has_loaded = true;
  }
};

/// Room for a value that is set later.
template <typename T>
union Unset {
  T value;
  KILN_DEVICE Unset() {}
};

/// A pipeline whose bodies multiply by wgmma. A step's products may go on while the next one's begin. With three stages
/// or more the place that is filled is that of two steps before, with which all warps were done when they came to the
/// barrier; with two, products end before it. The addresses of a step's loads are computed behind the products of the
/// step before: they take 60 instructions, and a warp that is alone on its scheduler 5 to 10 clocks for each.
///
/// What cp.async wrote is seen by wgmma once it has been waited for and a barrier passed (CUTLASS and Triton rely on
/// that too); a proxy fence here would wait for the copies that are still on their way: 20% of a bf16 product.
template <int kNumStages, typename Tiles, typename Loads, typename Body>
KILN_DEVICE void run_background_pipeline(uint32_t begin, int64_t num_steps, Loads& loads, Body& body) {
  constexpr auto kAll = typename MakeSequence<Tiles::kCount>::type{};
  constexpr int kAhead = kNumStages > 2 ? kNumStages - 2 : 1;
  StageRing<Tiles::kBytes, kNumStages> filled(begin), used(begin);
  sm90::products_wait<0>();
  // An early return where there is no step was the alternative: sums that two paths lead to make ptxas wait for each
  // product.
  Unset<decltype(Tiles::prepare(loads(int64_t{0})))> unset;
  auto& copies = unset.value;
  if (num_steps > 0) copies = Tiles::prepare(loads(0));
  KILN_NO_UNROLL for (int64_t step = -kAhead; step < num_steps; ++step) {
    wait_for_copies<kAhead - 1>();
    if constexpr (kNumStages == 2) sm90::products_wait<0>();
    __syncthreads();
    const auto load_ahead = [&] {
      if (step + kAhead < num_steps) Tiles::copy(filled.place, copies, kAll);
      end_copy_group();
      filled.advance();
    };
    const auto prepare_next = [&] {
      if (step + kAhead + 1 < num_steps) copies = Tiles::prepare(loads(step + kAhead + 1));
    };
    if (step < 0) {
      load_ahead();
      prepare_next();
    } else {
      PipelineStep<decltype(load_ahead)> products{load_ahead};
      Tiles::call(used.place, &products, body, kAll);
      used.advance();
      if (!products.has_loaded) {
        load_ahead();
        sm90::products_wait<0>();
      }
      prepare_next();
      // The products begun last may go on through the next step, those of the step before may not. Here and not at the
      // loop's head, where ptxas 13.0 makes products half as fast.
      if (products.has_loaded) sm90::products_wait<1>();
    }
  }
  sm90::products_wait<0>();  // whatever comes next may use the places
}

template <int kNumStages, typename Loads, typename Body>
KILN_DEVICE void run_pipeline(int64_t num_steps, Loads& loads, Body& body) {
  using Tiles = StageTiles<decltype(loads(int64_t{0}))>;
  constexpr auto kAll = typename MakeSequence<Tiles::kCount>::type{};
  constexpr uint32_t kBytes = pipeline_shared_bytes(kNumStages, Tiles::kBytes);
  // The compiler reads this in the PTX (Artifact::dynamic_shared_bytes).
  asm volatile("// kiln.dynamic_shared_bytes %0" ::"n"(kBytes));
  device_assert(given_dynamic_shared_bytes() >= kBytes,
                "the launch gives tl::pipeline less than pipeline_shared_bytes");
  const uint32_t begin = shared_window_address(dynamic_shared_bytes());
  if constexpr (Tiles::may_use_wgmma() && kNumStages > 1)
    return run_background_pipeline<kNumStages, Tiles>(begin, num_steps, loads, body);
  StageRing<Tiles::kBytes, kNumStages> filled(begin), used(begin);
  // The first kNumStages - 1 rounds only start loads: a loop of their own would compile those a second time.
  KILN_NO_UNROLL for (int64_t step = 1 - kNumStages; step < num_steps; ++step) {
    if constexpr (kNumStages > 1) wait_for_copies<kNumStages - 2>();
    // All threads' loads of this step are there, and all are done with the step before, whose place is filled next.
    __syncthreads();
    const auto load_ahead = [&] {
      if (step + (kNumStages - 1) < num_steps)
        Tiles::copy(filled.place, Tiles::prepare(loads(step + (kNumStages - 1))), kAll);
      end_copy_group();
      filled.advance();
    };
    // With more than two stages something is on its way in any case, and the body's products may start at once: worth
    // 3% of a bf16 product on an H200. Turned tiles are many small copies, which queue up: half of the warps multiply
    // while the others copy (up to 9% of a f32 product).
    const bool copies_first = kNumStages <= 2 || (Tiles::kNamesLines && threadIdx.x / 32 % 2 == 1);
    if (copies_first) load_ahead();
    if constexpr (kNumStages == 1) {
      wait_for_copies<0>();
      __syncthreads();
    }
    if (step >= 0) {
      Tiles::call(used.place, static_cast<NoStep*>(nullptr), body, kAll);
      used.advance();
      if constexpr (kHasWgmma) sm90::products_wait<0>();
    }
    if (!copies_first) load_ahead();
  }
}

}  // namespace kiln::tl
