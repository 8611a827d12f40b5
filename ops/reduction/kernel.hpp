#pragma once

#include "ops/reduction/kernel_span.hpp"

namespace kiln::ops {

/// The results of the states of a block of kept elements, to the outputs.
template <int kKeptBlock, typename Reducer, typename Tiles, typename... Out>
KILN_DEVICE void store_results(const Reducer& reducer, const Tiles& states, const ReductionIteration& it,
                               const KeptBlock& block, Out*... out) {
  const auto results = map_elements([&](const auto& state, int) { return reducer.finalize(state); }, states);
  const auto kept = tl::arange<kKeptBlock>();
  const auto mask = kept < it.kept - block.first;
  const auto run = [&]<int... kPart>(tl::Sequence<kPart...>) {
    (tl::store(out + block.output_offsets[kPart] + kept * it.output_strides[kPart], tl::part_of<kPart>(results), mask),
     ...);
  };
  run(tl::make_sequence<sizeof...(Out)>());
}

/// Reduces and writes the results: one chunk.
template <typename Reducer, typename Via, int kAxis, bool kContiguous, int BLOCK_M, int BLOCK_N, int UNROLL,
          bool kHasOuter, typename In, typename... Out>
KILN_KERNEL void reduction_kernel(const In* in, ReductionIteration it, ReductionScalars scalars, Out*... out) {
  constexpr int kKeptBlock = kAxis == 1 ? BLOCK_M : BLOCK_N;
  const Reducer reducer{scalars};
  const KeptBlock block = kept_block<kKeptBlock, kHasOuter>(it);
  const auto states = reduce_chunk<Reducer, Via, kAxis, kContiguous, BLOCK_M, BLOCK_N, UNROLL, kHasOuter, false>(
      in, it, reducer, block);
  store_results<kKeptBlock>(reducer, states, it, block, out...);
}

/// As reduction_kernel, for a span of SPAN tiles of a row: see reduce_span.
template <typename Reducer, typename Via, bool kContiguous, int BLOCK_N, int SPAN, int UNROLL, bool kHasOuter,
          typename In, typename... Out>
KILN_KERNEL void reduction_span_kernel(const In* in, ReductionIteration it, ReductionScalars scalars, Out*... out) {
  const Reducer reducer{scalars};
  reduce_span<Reducer, Via, kContiguous, BLOCK_N, SPAN, UNROLL, kHasOuter>(
      in, it, reducer, kept_block<BLOCK_N * SPAN, kHasOuter, false>(it),
      [&](const auto& states, const KeptBlock& block) { store_results<BLOCK_N>(reducer, states, it, block, out...); });
}

/// Where part `part` of the states of kept element 0 of a chunk lies.
template <typename T>
KILN_DEVICE T* part_address(tl::uint8_t* states, const ReductionIteration& it, int part, tl::int64_t chunk) {
  return reinterpret_cast<T*>(states + it.part_bytes[part]) + chunk * it.kept_total;
}

/// States whose positions are along the reduced dimension, with places in the whole.
template <typename Reducer, typename Tiles>
KILN_DEVICE auto with_places(const Reducer& reducer, const Tiles& states, const ReductionIteration& it,
                             const KeptBlock& block) {
  using Layout = typename tl::remove_cvref_t<decltype(tl::part_of<0>(states))>::layout;
  const auto place = [&](const auto& state, int r) {
    return reducer.place_along(state, block.output_offsets[0] + Layout::column(r) * it.output_strides[0],
                               it.place_stride);
  };
  return map_elements(place, states);
}

/// Leaves the states of a block of kept elements in a chunk for reduction_combine_kernel. FOLDED and SPREAD: see
/// ReductionIteration.
template <int kKeptBlock, bool FOLDED, bool SPREAD, typename Reducer, typename Tiles>
KILN_DEVICE void store_states(const Reducer& reducer, const Tiles& along, const ReductionIteration& it,
                              const KeptBlock& block, tl::uint8_t* states) {
  const auto reduced = [&] {
    if constexpr (SPREAD)
      return with_places(reducer, along, it, block);
    else
      return along;
  }();
  const auto kept = tl::arange<kKeptBlock>();
  const auto mask = kept < it.kept - block.first;
  const tl::int64_t chunk = chunk_index(it);
  int part = 0;
  tl::map_parts(
      [&](const auto& tile) {
        using T = typename tl::remove_cvref_t<decltype(tile)>::value_type;
        if constexpr (FOLDED) {
          // Of every fold of these columns the states are a chunk's.
          const auto columns = static_cast<tl::uint32_t>(it.fold_columns);
          const auto place = tl::cast<tl::uint32_t>(kept + block.first), row = place / columns;
          const tl::int64_t outer = block.linear - block.first;  // outer kept index times kept elements of a row
          tl::store(part_address<T>(states, it, part++, chunk * it.fold) + outer / it.fold +
                        tl::cast<tl::int64_t>(row) * it.kept_total + tl::cast<tl::int64_t>(place - row * columns),
                    tile, mask);
        } else {
          tl::store(part_address<T>(states, it, part++, chunk) + block.linear + kept, tile, mask);
        }
        return 0;
      },
      reduced);
}

/// Reduces one of several chunks and leaves its states.
template <typename Reducer, typename Via, int kAxis, bool kContiguous, int BLOCK_M, int BLOCK_N, int UNROLL,
          bool kHasOuter, bool FOLDED, bool SPREAD, typename In>
KILN_KERNEL void reduction_chunk_kernel(const In* in, ReductionIteration it, ReductionScalars scalars,
                                        tl::uint8_t* states) {
  constexpr int kKeptBlock = kAxis == 1 ? BLOCK_M : BLOCK_N;
  const Reducer reducer{scalars};
  const KeptBlock block = kept_block<kKeptBlock, kHasOuter>(it);
  const auto along = reduce_chunk<Reducer, Via, kAxis, kContiguous, BLOCK_M, BLOCK_N, UNROLL, kHasOuter, FOLDED>(
      in, it, reducer, block);
  store_states<kKeptBlock, FOLDED, SPREAD>(reducer, along, it, block, states);
}

/// The same for a span of SPAN tiles of a row.
template <typename Reducer, typename Via, bool kContiguous, int BLOCK_N, int SPAN, int UNROLL, bool kHasOuter,
          bool SPREAD, typename In>
KILN_KERNEL void reduction_span_chunk_kernel(const In* in, ReductionIteration it, ReductionScalars scalars,
                                             tl::uint8_t* states) {
  const Reducer reducer{scalars};
  reduce_span<Reducer, Via, kContiguous, BLOCK_N, SPAN, UNROLL, kHasOuter>(
      in, it, reducer, kept_block<BLOCK_N * SPAN, kHasOuter, false>(it),
      [&](const auto& along, const KeptBlock& block) {
        store_states<BLOCK_N, false, SPREAD>(reducer, along, it, block, states);
      });
}

/// Joins the chunks' states in a fixed order and writes the results.
template <typename Reducer, int BLOCK_M, int BLOCK_N, bool kHasOuter, typename... Out>
KILN_KERNEL void reduction_combine_kernel(tl::uint8_t* states, ReductionIteration it, ReductionScalars scalars,
                                          Out*... out) {
  using S = tl::Shape<BLOCK_M, BLOCK_N>;
  const Reducer reducer{scalars};
  const KeptBlock block = kept_block<BLOCK_N, kHasOuter>(it);
  const auto kept = tl::expand_dims<0>(tl::arange<BLOCK_N>());
  const auto chunks = tl::expand_dims<1>(tl::arange<BLOCK_M>());
  const auto identity = reducer.wide_identity();
  auto state = fill_tiles<S>(identity);
  KILN_NO_UNROLL for (tl::int64_t chunk = 0; chunk < it.chunks; chunk += BLOCK_M) {
    const auto mask = (kept < it.kept - block.first) & (chunks < it.chunks - chunk);
    const auto valid = tl::broadcast_to_shape<S>(tl::to_values(mask));
    int part = 0;
    const auto loaded = tl::map_parts(
        [&](auto number) {
          using T = decltype(number);
          const auto offsets = chunks * it.kept_total + kept * it.kept_stride;
          return tl::load(part_address<T>(states, it, part++, chunk) + block.linear + offsets, valid);
        },
        identity);
    state = map_elements(
        [&](const auto& so_far, int r) {
          const bool counts = valid.registers[r];
          return reducer.combine(so_far, tl::map_parts([counts](auto x, auto y) { return counts ? x : y; },
                                                       tl::element_of(loaded, r), identity));
        },
        state);
  }
  store_results<BLOCK_N>(reducer, tl::reduce<0>(state, StateCombination<Reducer>{reducer}), it, block, out...);
}

}  // namespace kiln::ops
