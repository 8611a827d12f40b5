#pragma once

#include "ops/reduction/kernel_chunk.hpp"

namespace kiln::ops {

/// Rows that a reducer is given at a time: of more the compiler makes no vectors any more where a reducer does much
/// with each (logsumexp of eight took seven times as long as of four).
inline constexpr int kMostTogether = 4;

/// Reduces a chunk for a span of kept elements that are up to SPAN tiles side by side: visit(states, block of one tile)
/// for each of them, as reduce_chunk has them for one.
///
/// For a CPU: memory is read as it lies, row by row from end to end, as far as the span goes, where a program of one
/// tile reads a piece of each row and leaves the hardware little to fetch ahead. States stay in the nearest caches,
/// from where UNROLL rows at a time are added to those of a tile. The last tile begins earlier rather than reach over
/// the end: what two tiles have of the span is the same in both.
template <typename Reducer, typename Via, bool kContiguous, int BLOCK_N, int SPAN, int UNROLL, bool kHasOuter,
          typename In, typename Visit>
KILN_DEVICE void reduce_span(const In* in, const ReductionIteration& it, const Reducer& reducer, const KeptBlock& span,
                             Visit visit) {
  using Acc = typename Reducer::Accumulator;
  using View = TileView<0, kContiguous, 1, BLOCK_N>;
  using S = typename View::Shape;
  using States = decltype(fill_tiles<S>(reducer.identity()));
  const Chunk chunk = chunk_of<kHasOuter>(it);
  const tl::int64_t room = it.kept - span.first, width = room < BLOCK_N * SPAN ? room : BLOCK_N * SPAN;
  const tl::int64_t tiles = (width + BLOCK_N - 1) / BLOCK_N, last_column = width - BLOCK_N;
  const auto column_of = [&](tl::int64_t tile) {
    const tl::int64_t column = tile * BLOCK_N;
    return column < last_column ? column : last_column;
  };

  States states[SPAN];
  // Where runs are no states, those of several segments are joined in other ones.
  constexpr bool kKeepsRuns = kHasOuter && !Reducer::kRunIsState;
  States others[kKeepsRuns ? SPAN : 1];
  States* const runs = kKeepsRuns ? others : states;
  KILN_NO_UNROLL for (tl::int64_t tile = 0; tile < tiles; ++tile) states[tile] = fill_tiles<S>(reducer.identity());

  tl::int32_t outer_position = 0;  // of the segment's element 0 within the chunk
  KILN_NO_UNROLL for (tl::int64_t outer = chunk.outer; outer < chunk.outer_end; ++outer) {
    const In* const segment = segment_of<kHasOuter>(in + span.input_offset, it, outer);
    tl::int64_t row = chunk.first;
    // kRows rows: what add(run, its elements, rows before them) makes of each run.
    const auto take_rows = [&]<int kRows>(tl::Constant<kRows>, auto add) {
      const In* const address = segment + row * it.reduced_stride;
      constexpr int kTogether = kRows < kMostTogether ? kRows : kMostTogether;
      KILN_TILE_LOOP for (tl::int64_t tile = 0; tile < tiles; ++tile) {
        const In* first = address + column_of(tile) * it.kept_stride;
        States run = runs[tile];
        for (int done = 0; done < kRows; done += kTogether) {
          tl::Tile<Acc, S> values[kTogether];
          for (int u = 0; u < kTogether; ++u, first += it.reduced_stride)
            values[u] =
                tl::cast<Acc>(tl::cast<Via>(tl::load(first + View::offsets(it.kept_stride, it.reduced_stride))));
          run = map_elements(
              [&](const auto& so_far, int r) {
                Acc x[kTogether];
                for (int u = 0; u < kTogether; ++u) x[u] = values[u].registers[r];
                return add(so_far, x, done);
              },
              run);
        }
        runs[tile] = run;
      }
      row += kRows;
    };
    const auto take_all = [&](auto add) {
      KILN_NO_UNROLL while (row + UNROLL <= chunk.last) take_rows(tl::Constant<UNROLL>{}, add);
      if constexpr (UNROLL > 1) KILN_NO_UNROLL while (row < chunk.last) take_rows(tl::Constant<1>{}, add);
    };
    const auto finish = [&](auto finish_tile) {
      KILN_NO_UNROLL for (tl::int64_t tile = 0; tile < tiles; ++tile) {
        const auto found = finish_tile(tile);
        states[tile] = map_elements(
            [&](const auto& so_far, int r) {
              return kKeepsRuns ? reducer.combine(so_far, tl::element_of(found, r)) : tl::element_of(found, r);
            },
            states[tile]);
      }
    };

    if constexpr (Reducer::kShifts) {
      if (chunk.first < chunk.last) {
        // The first row, which the count says is not there yet: of nothing but it, it adds nothing.
        take_rows(tl::Constant<1>{}, [&](const auto&, const auto& x, int) { return reducer.start(x); });
        row = chunk.first;
        take_all([&](const auto& run, const auto& x, int done) {
          return reducer.add(run, x, static_cast<Acc>(row + done - chunk.first));
        });
        const Acc count = static_cast<Acc>(chunk.last - chunk.first);
        finish([&](tl::int64_t tile) {
          const auto pivot = first_elements<Acc, Via, View>(in + span.input_offset + column_of(tile) * it.kept_stride,
                                                            View::kept() * it.kept_stride, View::kept() < BLOCK_N);
          return map_elements([&](const auto& run, int r) { return reducer.finish(run, count, pivot.registers[r]); },
                              runs[tile]);
        });
      }
    } else {
      if constexpr (!Reducer::kRunIsState)
        KILN_NO_UNROLL for (tl::int64_t tile = 0; tile < tiles; ++tile) runs[tile] = fill_tiles<S>(reducer.start());
      take_all([&](const auto& run, const auto& x, int done) {
        return reducer.template add<1>(run, x, outer_position + static_cast<tl::int32_t>(row + done - chunk.first));
      });
      if constexpr (!Reducer::kRunIsState)
        finish([&](tl::int64_t tile) {
          return map_elements([&](const auto& run, int) { return reducer.finish(run, RunEnd{0, outer_position}); },
                              runs[tile]);
        });
    }
    outer_position += static_cast<tl::int32_t>(it.reduced);
  }

  KILN_NO_UNROLL for (tl::int64_t tile = 0; tile < tiles; ++tile) {
    KeptBlock block = span;
    const tl::int64_t column = column_of(tile);
    block.first += column;
    block.linear += column;
    for (int i = 0; i < kMaxReductionOutputs; ++i) block.output_offsets[i] += column * it.output_strides[i];
    const auto reduced = tl::reduce<0>(states[tile], StateCombination<Reducer>{reducer});
    visit(map_elements([&](const auto& state, int) { return reducer.widen(state, chunk.origin(it)); }, reduced), block);
  }
}

}  // namespace kiln::ops
