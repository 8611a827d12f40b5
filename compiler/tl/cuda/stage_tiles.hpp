#pragma once

#include "compiler/tl/cuda/box_copy.hpp"
#include "compiler/tl/cuda/tile_copy.hpp"

namespace kiln::tl {

/// What one step of a pipeline loads: a DeferredLoad or a Tuple of them, one behind the other in shared memory.
template <typename LoadsT>
struct StageTiles {
  using Loads = LoadsT;
  static constexpr int kCount = larger(1, kParts<Loads>);
  template <int kPart>
  using Load = remove_cvref_t<decltype(part_of<kPart>(*static_cast<const Loads*>(nullptr)))>;
  template <int kPart>
  using Copy = TileCopy<Load<kPart>>;
  static constexpr bool kNamesLines = Copy<0>::Shared::kHasPadding;
  /// Of tiles that wgmma may read, whose swizzle goes by the address: one with padding may be no multiple of it.
  static constexpr int kAlignment = kHasWgmma && !kNamesLines ? 1024 : 1;
  template <int kPart>
  static constexpr int offset() {
    if constexpr (kPart == 0)
      return 0;
    else
      return offset<kPart - 1>() + (Copy<kPart - 1>::Shared::kBytes + kAlignment - 1) / kAlignment * kAlignment;
  }
  static constexpr int kBytes = offset<kCount>();
  template <int... kPart>
  static constexpr bool any_meet(Sequence<kPart...>) {
    return (Copy<kPart>::kThreadsMeet || ...);
  }
  static constexpr auto kAll = typename MakeSequence<kCount>::type{};
  static constexpr bool kThreadsMeet = any_meet(kAll);

  /// Whether dots of these tiles may be wgmma's. A guess at types alone: the first two, where they are a's and b's, say
  /// how many rows a product has.
  static constexpr bool may_use_wgmma() {
    if constexpr (!kHasWgmma || kNumWarps % 4 != 0 || sizeof(typename Copy<0>::T) > 4 || kNamesLines) {
      return false;
    } else if constexpr (kCount > 1) {
      using A = typename Copy<0>::S;
      return A::kColumns != Copy<1>::S::kRows || A::kRows % 64 == 0;
    } else {
      return true;
    }
  }

  template <int... kPart>
  KILN_DEVICE static void copy(uint32_t stage, const Loads& loads, Sequence<kPart...>) {
    const auto copies =
        map_parts([](const auto& load) { return TileCopy<remove_cvref_t<decltype(load)>>(load); }, loads);
    constexpr bool kHaveFastPath = (Copy<kPart>::kHasFastPath && ...);
    if constexpr (kHaveFastPath) {
      // One question for all tiles.
      if (__builtin_expect((part_of<kPart>(copies).is_whole & ...), 1))
        return (part_of<kPart>(copies).template copy_whole<16>(stage + offset<kPart>()), ...);
    }
    if constexpr (kCount == 2 && (Copy<kPart>::kHasFewElements && ...)) {
      // Threads wait for elements: of both tiles at once.
      if ((part_of<kPart>(copies).takes_elements() && ...))
        return copy_elements(part_of<0>(copies), part_of<1>(copies), stage);
    }
    (part_of<kPart>(copies).template copy<!kHaveFastPath>(stage + offset<kPart>()), ...);
  }
  template <typename First, typename Second>
  KILN_DEVICE static void copy_elements(const First& first, const Second& second, uint32_t stage) {
    typename First::Batch of_first;
    typename Second::Batch of_second;
    first.load_batch(0, of_first);
    second.load_batch(0, of_second);
    First::store_batch(stage + offset<0>(), 0, of_first);
    Second::store_batch(stage + offset<1>(), 0, of_second);
  }
  template <typename Step, typename Body, int... kPart>
  KILN_DEVICE static decltype(auto) call(uint32_t stage, Step* step, Body& body, Sequence<kPart...>) {
    return body(typename Copy<kPart>::template SharedIn<Step>{stage + offset<kPart>(), step}...);
  }
};

/// The ring of places that a pipeline's tiles take turns in.
template <uint32_t kStageBytes, int kNumStages>
struct StageRing {
  uint32_t begin, place;

  KILN_DEVICE explicit StageRing(uint32_t first) : begin(first), place(first) {}
  KILN_DEVICE void advance() {
    place = place + kStageBytes == begin + kNumStages * kStageBytes ? begin : place + kStageBytes;
  }
};

}  // namespace kiln::tl
