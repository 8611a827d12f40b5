#pragma once

#include "ops/reduction/kernel_tiles.hpp"

namespace kiln::ops {

template <typename Reducer>
struct StateCombination {
  static constexpr bool kSymmetric = Reducer::kSymmetric;
  Reducer reducer;
  KILN_DEVICE auto operator()(const auto& x, const auto& y) const { return reducer.combine(x, y); }
};

/// What a program covers of the kept dimensions.
struct KeptBlock {
  tl::int64_t first;   ///< along the tiled dimension
  tl::int64_t linear;  ///< of all kept elements, those of the tiled dimension fastest
  tl::int64_t input_offset;
  tl::int64_t output_offsets[kMaxReductionOutputs];
};

/// kOverlaps: the last block begins earlier rather than reach over the end.
template <int kBlock, bool kHasOuter, bool kOverlaps = !kMasksKept>
KILN_DEVICE KeptBlock kept_block(const ReductionIteration& it) {
  KeptBlock block{};
  ProgramNumber rest = static_cast<ProgramNumber>(tl::program_id(0));
  block.first = (kHasOuter ? take_coordinate(rest, it.kept_blocks) : static_cast<tl::int64_t>(rest)) * kBlock;
  // On a CPU tiles under a mask go element by element, at 20 ns each (amax of 130 rows of 500 in blocks of 16 took 180
  // us instead of 7). Two programs write the same results.
  if (kOverlaps && block.first > it.kept - kBlock && it.kept >= kBlock) block.first = it.kept - kBlock;
  block.linear = block.first;
  block.input_offset = it.input_offset + block.first * it.kept_stride;
  for (int i = 0; i < kMaxReductionOutputs; ++i) block.output_offsets[i] = block.first * it.output_strides[i];
  if constexpr (kHasOuter) {
    block.linear += static_cast<tl::int64_t>(rest) * it.kept;
    KILN_NO_UNROLL for (int dim = 0; dim < it.num_outer_kept; ++dim) {
      const tl::int64_t digit = take_coordinate(rest, it.outer_kept_extents[dim]);
      block.input_offset += digit * it.outer_kept_strides[dim];
      for (int i = 0; i < kMaxReductionOutputs; ++i) block.output_offsets[i] += digit * it.outer_output_strides[i][dim];
    }
  }
  return block;
}

/// The program's place among the chunks of one kept block.
KILN_DEVICE tl::int64_t chunk_index(const ReductionIteration& it) {
  return tl::program_id(2) * it.pieces + tl::program_id(1);
}

/// What a program takes of the reduced dimensions: indices of the tiled one from `first` on, at outer ones from `outer`
/// on.
struct Chunk {
  tl::int64_t first, last;
  tl::int64_t outer, outer_end;
  /// The place of its first element in the whole.
  KILN_DEVICE tl::int64_t origin(const ReductionIteration& it) const { return outer * it.reduced + first; }
};

template <bool kHasOuter>
KILN_DEVICE Chunk chunk_of(const ReductionIteration& it) {
  Chunk chunk{0, 0, 0, 1};
  chunk.first = tl::program_id(1) * it.piece_extent;
  chunk.last = chunk.first + it.piece_extent < it.reduced ? chunk.first + it.piece_extent : it.reduced;
  if constexpr (kHasOuter) {
    chunk.outer = tl::program_id(2) * it.outer_reduced_per_chunk;
    chunk.outer_end = chunk.outer + it.outer_reduced_per_chunk < it.outer_reduced
                          ? chunk.outer + it.outer_reduced_per_chunk
                          : it.outer_reduced;
  }
  return chunk;
}

/// Where reduced index 0 of the tiled dimension lies at outer reduced index `outer`, in an input of which `data` is the
/// block's first element.
template <bool kHasOuter, typename In>
KILN_DEVICE const In* segment_of(const In* data, const ReductionIteration& it, tl::int64_t outer) {
  if constexpr (kHasOuter) {
    tl::uint64_t left = static_cast<tl::uint64_t>(outer);
    KILN_NO_UNROLL for (int dim = 0; dim < it.num_outer_reduced; ++dim) {
      const tl::uint64_t extent = static_cast<tl::uint64_t>(it.outer_reduced_extents[dim]);
      data += static_cast<tl::int64_t>(left % extent) * it.outer_reduced_strides[dim];
      left /= extent;
    }
  }
  return data;
}

/// Reduces a chunk of the reduced dimensions for a block of kept elements: the states, one-dimensional over the block,
/// positions counted from the start of the whole.
///
/// Tiles that are full along the reduced dimension are added to a run, UNROLL of them loaded before the first is used,
/// so that enough memory is in flight. A row that does not start at a packet's boundary is taken from there: its first
/// tile is masked and all others move packets. So on a GPU the order, and with it a float's last bits, depends on the
/// row's address within a packet.
template <typename Reducer, typename Via, int kAxis, bool kContiguous, int BLOCK_M, int BLOCK_N, int UNROLL,
          bool kHasOuter, bool kFolded, typename In>
KILN_DEVICE auto reduce_chunk(const In* in, const ReductionIteration& it, const Reducer& reducer,
                              const KeptBlock& block) {
  using Acc = typename Reducer::Accumulator;
  using View = TileView<kAxis, kContiguous, BLOCK_M, BLOCK_N>;
  using S = typename View::Shape;
  constexpr int kBlock = View::kReducedBlock;
  // Of a run: on a GPU whatever full tiles UNROLL leaves are taken one by one.
  constexpr int kFirstTiles = kMasksKept ? 1 : UNROLL;
  constexpr int kPacket = View::template kPacket<In>;

  const Chunk chunk = chunk_of<kHasOuter>(it);
  const tl::int64_t first = chunk.first, last = chunk.last, origin = chunk.origin(it);
  const tl::int64_t kept_room = it.kept - block.first, elements_room = it.fold_elements - block.first;
  const auto kept_mask = View::kept() < kept_room;

  // What elements are counted from, whichever chunk this is. Loaded where it is used: held over the loop it would take
  // a register for each of the elements'.
  const auto pivots = [&] {
    if constexpr (Reducer::kShifts && kFolded)
      return first_elements<Acc, Via, View>(
          in + (block.input_offset - block.first),
          tl::cast<tl::uint32_t>(tl::broadcast_to<BLOCK_M, BLOCK_N>(View::kept() + block.first)) %
              static_cast<tl::uint32_t>(it.fold_columns),
          kept_mask & (first < last));
    else if constexpr (Reducer::kShifts)
      return first_elements<Acc, Via, View>(in + block.input_offset, View::kept() * it.kept_stride,
                                            kept_mask & (first < last));
    else
      return fill_tiles<S>(Acc(0));
  };

  auto state = fill_tiles<S>(reducer.identity());
  tl::int32_t outer_position = 0;  // of the segment's element 0 within the chunk
  KILN_NO_UNROLL for (tl::int64_t outer = chunk.outer; outer < chunk.outer_end; ++outer) {
    const In* const segment = segment_of<kHasOuter>(in + block.input_offset, it, outer);

    if constexpr (kMasksKept && Reducer::kHasNeutral) {
      const SegmentTiles<Reducer, Via, kAxis, kContiguous, BLOCK_M, BLOCK_N, kFolded, In> tiles{
          it, reducer, kept_room, elements_room, {segment, first, last, outer_position}};
      if constexpr (Reducer::kRunIsState) {
        state = tiles.template add_to<UNROLL>(state);
      } else {
        const auto run = tiles.template add_to<UNROLL>(fill_tiles<S>(reducer.start()));
        state = map_elements(
            [&](const auto& so_far, int r) {
              return reducer.combine(so_far, reducer.finish(tl::element_of(run, r), tiles.run_end(r)));
            },
            state);
      }
    } else {
      tl::int64_t shift = 0;
      bool whole = kMasksKept || kept_room >= View::kKeptBlock;
      if constexpr (View::kPacked) {
        const tl::int64_t past = elements_past_boundary<kPacket>(segment + first * it.reduced_stride);
        if constexpr (kAxis == 1) {
          shift = past;
          whole = whole && (BLOCK_M == 1 || it.kept_stride % kPacket == 0);
        } else {
          whole = whole && past == 0 && it.reduced_stride % kPacket == 0;
        }
      }
      const tl::int64_t run_begin = shift == 0 ? first : first - shift + kBlock;
      const tl::int64_t whole_last = kFolded && whole_rows(it) < last ? whole_rows(it) : last;
      tl::int64_t tiles = whole && run_begin < whole_last ? (whole_last - run_begin) / kBlock : 0;
      if constexpr (kFirstTiles == UNROLL) tiles -= tiles % UNROLL;
      const tl::int64_t run_end = tiles > 0 ? run_begin + tiles * kBlock : first;

      const tl::int32_t first_position = outer_position + static_cast<tl::int32_t>(run_begin - first);
      tl::int32_t step_position = first_position;
      const In* address = segment + run_begin * it.reduced_stride;
      // One step of kTiles tiles: what add(register, its elements) makes of each register. Kept elements that are not
      // there are 0, and what comes of them goes nowhere.
      const auto take_step = [&]<int kTiles>(tl::Constant<kTiles>, auto add) {
        const tl::int64_t kept_stride = packet_stride<(View::kPacked && kAxis == 1), kPacket>(it.kept_stride);
        const tl::int64_t reduced_stride = packet_stride<(View::kPacked && kAxis == 0), kPacket>(it.reduced_stride);
        const auto offsets = View::offsets(kept_stride, reduced_stride);
        if constexpr (View::kPacked) __builtin_assume(is_at_boundary<kPacket>(address));
        tl::Tile<In, S> loaded[kTiles];
        KILN_UNROLL for (int u = 0; u < kTiles; ++u) {
          const auto pointers = address + u * (kBlock * reduced_stride) + offsets;
          if constexpr (View::kKeptBlock == 1 || !kMasksKept)
            loaded[u] = tl::load(pointers);
          else
            loaded[u] = tl::load(pointers, kept_mask);
        }
        tl::Tile<Acc, S> values[kTiles];
        KILN_UNROLL for (int u = 0; u < kTiles; ++u) values[u] = tl::cast<Acc>(tl::cast<Via>(loaded[u]));
        const auto made = map_elements(
            [&](const auto&, int r) {
              Acc x[kTiles];
              KILN_UNROLL for (int u = 0; u < kTiles; ++u) x[u] = values[u].registers[r];
              return add(r, x);
            },
            values[0]);
        address += kTiles * kBlock * reduced_stride;
        step_position += kTiles * kBlock;
        return made;
      };
      // UNROLL tiles at a time, then what is left of them one by one.
      const tl::int64_t steps = tiles / UNROLL, singles = tiles % UNROLL;
      const auto advance = [&](auto run) {
        const auto add = [&](int r, const auto& x) {
          return reducer.template add<kBlock>(tl::element_of(run, r), x, step_position);
        };
        KILN_NO_UNROLL for (tl::int64_t i = 0; i < steps; ++i) run = take_step(tl::Constant<UNROLL>{}, add);
        if constexpr (kFirstTiles < UNROLL)
          KILN_NO_UNROLL for (tl::int64_t i = 0; i < singles; ++i) run = take_step(tl::Constant<1>{}, add);
        return run;
      };
      if constexpr (Reducer::kRunIsState) {
        state = advance(state);
      } else if constexpr (Reducer::kShifts) {
        if (tiles > 0) {
          auto run = take_step(tl::Constant<kFirstTiles>{}, [&](int, const auto& x) { return reducer.start(x); });
          tl::int64_t taken = kFirstTiles;
          const auto add = [&](int r, const auto& x) {
            return reducer.add(tl::element_of(run, r), x, static_cast<Acc>(taken));
          };
          KILN_NO_UNROLL for (; taken + UNROLL <= tiles; taken += UNROLL) run = take_step(tl::Constant<UNROLL>{}, add);
          if constexpr (UNROLL > 1)
            KILN_NO_UNROLL for (; taken < tiles; ++taken) run = take_step(tl::Constant<1>{}, add);
          const Acc count = static_cast<Acc>(tiles);
          const auto pivot = pivots();
          state = map_elements(
              [&](const auto& so_far, int r) {
                const auto found = reducer.finish(tl::element_of(run, r), count, pivot.registers[r]);
                return kHasOuter ? reducer.combine(so_far, found) : found;  // joining with nothing costs as much
              },
              state);
        }
      } else if (tiles > 0) {
        const auto run = advance(fill_tiles<S>(reducer.start()));
        state = map_elements(
            [&](const auto& so_far, int r) {
              const RunEnd end{View::lane(r), first_position + View::lane(r)};
              return reducer.combine(so_far, reducer.finish(tl::element_of(run, r), end));
            },
            state);
      }

      // The tile before the run, if it has one, then those behind it.
      tl::int64_t position = tiles > 0 && shift != 0 ? run_begin - kBlock : run_end;
      KILN_NO_UNROLL while (position < last) {
        const auto mask = kept_mask & (View::reduced() < last - position) & (View::reduced() >= first - position);
        const auto valid = [&] {
          if constexpr (kFolded)
            return tl::broadcast_to_shape<S>(tl::to_values(mask & folded_mask<View>(it, elements_room, position)));
          else
            return tl::broadcast_to_shape<S>(tl::to_values(mask));
        }();
        const auto values = tl::cast<Acc>(tl::cast<Via>(tl::load(
            segment + position * it.reduced_stride + View::offsets(it.kept_stride, it.reduced_stride), valid)));
        const tl::int32_t tile_position = outer_position + static_cast<tl::int32_t>(position - first);
        const auto pivot = pivots();
        state = map_elements(
            [&](const auto& so_far, int r) {
              const Acc x = Reducer::kShifts ? values.registers[r] - pivot.registers[r] : values.registers[r];
              const auto found = reducer.element(x, tile_position + View::lane(r));
              const auto nothing = reducer.identity();
              const bool counts = valid.registers[r];
              return reducer.combine(
                  so_far, tl::map_parts([counts](auto x, auto y) { return counts ? x : y; }, found, nothing));
            },
            state);
        position = position < run_begin && tiles > 0 ? run_end : position + kBlock;
      }
    }
    outer_position += static_cast<tl::int32_t>(it.reduced);
  }

  const auto reduced = tl::reduce<kAxis>(state, StateCombination<Reducer>{reducer});
  return map_elements([&](const auto& element, int) { return reducer.widen(element, origin); }, reduced);
}

}  // namespace kiln::ops
