#pragma once

#include <kiln/tl.hpp>

#include "ops/common/kernel_place.hpp"
#include "ops/reduction/functors.hpp"
#include "ops/reduction/iteration.hpp"

namespace kiln::ops {

/// f(element, register) of one tile or several, as one tile or several.
template <typename F, typename Tiles>
KILN_DEVICE auto map_elements(F f, const Tiles& tiles) {
  using First = tl::remove_cvref_t<decltype(tl::part_of<0>(tiles))>;
  using E = decltype(f(tl::element_of(tiles, 0), 0));
  const auto place = [](auto number) {
    return tl::Tile<decltype(number), typename First::shape, typename First::layout>{};
  };
  decltype(tl::map_parts(place, E{})) result;
  KILN_UNROLL for (int r = 0; r < First::kRegisters; ++r) tl::set_element(result, r, f(tl::element_of(tiles, r), r));
  return result;
}

/// One tile, or one for each part, with every element `number`.
template <typename S, typename E>
KILN_DEVICE auto fill_tiles(const E& number) {
  return tl::map_parts([](auto part) { return tl::full_of<decltype(part), S>(part); }, number);
}

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

template <int kBlock, bool kHasOuter>
KILN_DEVICE KeptBlock kept_block(const ReductionIteration& it) {
  KeptBlock block{};
  ProgramNumber rest = static_cast<ProgramNumber>(tl::program_id(0));
  block.first = (kHasOuter ? take_coordinate(rest, it.kept_blocks) : static_cast<tl::int64_t>(rest)) * kBlock;
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

/// How a program sees its tiles: kAxis is the reduced one, the columns are contiguous where kContiguous says so.
template <int kAxis, bool kContiguous, int BLOCK_M, int BLOCK_N>
struct TileView {
  using Shape = tl::Shape<BLOCK_M, BLOCK_N>;
  using Layout = tl::DefaultLayout<Shape>;
  static constexpr int kKeptBlock = kAxis == 1 ? BLOCK_M : BLOCK_N;
  static constexpr int kReducedBlock = kAxis == 1 ? BLOCK_N : BLOCK_M;
#if defined(KILN_TARGET_CUDA)
  /// Whether full tiles move in packets, which must be aligned: not where the plan asks for a vector width of 1.
  static constexpr bool kPacked = kContiguous && Layout::kVector > 1;
  /// Elements of one: a narrow tile has fewer to a thread than 16 bytes hold.
  template <typename T>
  static constexpr int kPacket = tl::smaller(Layout::kVector, 16 / static_cast<int>(sizeof(T)));
#else
  static constexpr bool kPacked = false;
  template <typename T>
  static constexpr int kPacket = 1;
#endif

  KILN_DEVICE static auto kept() { return tl::expand_dims<kAxis>(tl::arange<kKeptBlock>()); }
  KILN_DEVICE static auto reduced() { return tl::expand_dims<1 - kAxis>(tl::arange<kReducedBlock>()); }
  KILN_DEVICE static int lane(int r) { return kAxis == 1 ? Layout::column(r) : Layout::row(r); }

  /// With the columns' stride in the type where it is known: such a load moves packets.
  KILN_DEVICE static auto offsets(tl::int64_t kept_stride, tl::int64_t reduced_stride) {
    if constexpr (!kContiguous)
      return kept() * kept_stride + reduced() * reduced_stride;
    else if constexpr (kAxis == 1)
      return kept() * kept_stride + reduced();
    else
      return kept() + reduced() * reduced_stride;
  }
};

/// Elements from the last packet boundary up to `address`.
template <int kPacket, typename T>
KILN_DEVICE tl::int64_t elements_past_boundary(const T* address) {
  return static_cast<tl::int64_t>(reinterpret_cast<tl::uint64_t>(address) % (kPacket * sizeof(T)) / sizeof(T));
}

/// `stride` as a multiple of a packet, which it is where kPacked says so: written so that the compiler knows it too and
/// leaves out the path for tiles that are not aligned.
template <bool kPacked, int kPacket>
KILN_DEVICE tl::int64_t packet_stride(tl::int64_t stride) {
  return kPacked ? stride & ~tl::int64_t{kPacket - 1} : stride;
}

/// The first element of each kept one, over a tile; 0 where the mask does not hold.
template <typename Acc, typename Via, typename View, typename In, typename Mask>
KILN_DEVICE auto first_elements(const In* in, tl::int64_t kept_stride, const Mask& mask) {
  using S = typename View::Shape;
  const auto offsets = View::kept() * kept_stride;
  const auto convert = [](const auto& loaded) { return tl::cast<Acc>(tl::cast<Via>(loaded)); };
#if defined(KILN_TARGET_CUDA)
  // Each thread loads those of its own elements: an exchange between threads would wait for them.
  return convert(tl::load(in + tl::broadcast_to<S::kRows, S::kColumns>(offsets), mask));
#else
  return tl::broadcast_to_shape<S>(convert(tl::load(in + offsets, mask)));
#endif
}

/// Reduces a chunk of the reduced dimensions for a block of kept elements: the states, one-dimensional over the block,
/// positions counted from the start of the whole.
///
/// Full tiles are added to a run, UNROLL of them loaded before the first is used, so that enough memory is in flight. A
/// row that does not start at a packet's boundary is taken from there: its first tile is masked and all others move
/// packets. So on a GPU the order, and with it a float's last bits, depends on the row's address within a packet.
template <typename Reducer, typename Via, int kAxis, bool kContiguous, int BLOCK_M, int BLOCK_N, int UNROLL,
          bool kHasOuter, typename In>
KILN_DEVICE auto reduce_chunk(const In* in, const ReductionIteration& it, const Reducer& reducer,
                              const KeptBlock& block) {
  using Acc = typename Reducer::Accumulator;
  using View = TileView<kAxis, kContiguous, BLOCK_M, BLOCK_N>;
  using S = typename View::Shape;
  constexpr int kBlock = View::kReducedBlock;
  constexpr int kStep = kBlock * UNROLL;
  constexpr int kPacket = View::template kPacket<In>;

  const tl::int64_t first = tl::program_id(1) * it.piece_extent;
  const tl::int64_t last = first + it.piece_extent < it.reduced ? first + it.piece_extent : it.reduced;
  tl::int64_t outer = 0, outer_end = 1;
  if constexpr (kHasOuter) {
    outer = tl::program_id(2) * it.outer_reduced_per_chunk;
    outer_end =
        outer + it.outer_reduced_per_chunk < it.outer_reduced ? outer + it.outer_reduced_per_chunk : it.outer_reduced;
  }
  const tl::int64_t origin = outer * it.reduced + first;
  const tl::int64_t kept_room = it.kept - block.first;
  const auto kept_mask = View::kept() < kept_room;

  // What elements are counted from, whichever chunk this is. Loaded where it is used: held over the loop it would take
  // a register for each of the elements'.
  const auto pivots = [&] {
    if constexpr (Reducer::kShifts)
      return first_elements<Acc, Via, View>(in + block.input_offset, it.kept_stride, kept_mask & (first < last));
    else
      return fill_tiles<S>(Acc(0));
  };

  auto state = fill_tiles<S>(reducer.identity());
  tl::int32_t outer_position = 0;  // of the segment's element 0 within the chunk
  KILN_NO_UNROLL for (; outer < outer_end; ++outer) {
    const In* segment = in + block.input_offset;
    if constexpr (kHasOuter) {
      tl::uint64_t left = static_cast<tl::uint64_t>(outer);
      KILN_NO_UNROLL for (int dim = 0; dim < it.num_outer_reduced; ++dim) {
        const tl::uint64_t extent = static_cast<tl::uint64_t>(it.outer_reduced_extents[dim]);
        segment += static_cast<tl::int64_t>(left % extent) * it.outer_reduced_strides[dim];
        left /= extent;
      }
    }

    tl::int64_t shift = 0;
    bool whole = kept_room >= View::kKeptBlock;
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
    const tl::int64_t steps = whole && run_begin < last ? (last - run_begin) / kStep : 0;
    const tl::int64_t run_end = steps > 0 ? run_begin + steps * kStep : first;

    const tl::int32_t first_position = outer_position + static_cast<tl::int32_t>(run_begin - first);
    tl::int32_t step_position = first_position;
    const In* address = segment + run_begin * it.reduced_stride;
    // One step: what add(register, its elements) makes of each register.
    const auto take_step = [&](auto add) {
      const tl::int64_t kept_stride = packet_stride<(View::kPacked && kAxis == 1), kPacket>(it.kept_stride);
      const tl::int64_t reduced_stride = packet_stride<(View::kPacked && kAxis == 0), kPacket>(it.reduced_stride);
      const auto offsets = View::offsets(kept_stride, reduced_stride);
      if constexpr (View::kPacked) __builtin_assume(elements_past_boundary<kPacket>(address) == 0);
      tl::Tile<In, S> loaded[UNROLL];
      KILN_UNROLL for (int u = 0; u < UNROLL; ++u) loaded[u] =
          tl::load(address + u * (kBlock * reduced_stride) + offsets);
      tl::Tile<Acc, S> values[UNROLL];
      KILN_UNROLL for (int u = 0; u < UNROLL; ++u) values[u] = tl::cast<Acc>(tl::cast<Via>(loaded[u]));
      const auto made = map_elements(
          [&](const auto&, int r) {
            Acc x[UNROLL];
            KILN_UNROLL for (int u = 0; u < UNROLL; ++u) x[u] = values[u].registers[r];
            return add(r, x);
          },
          values[0]);
      address += kStep * reduced_stride;
      step_position += kStep;
      return made;
    };
    const auto advance = [&](auto run, tl::int64_t count) {
      KILN_NO_UNROLL for (tl::int64_t i = 0; i < count; ++i) run = take_step([&](int r, const Acc(&x)[UNROLL]) {
        return reducer.template add<kBlock>(tl::element_of(run, r), x, step_position);
      });
      return run;
    };
    if constexpr (Reducer::kRunIsState) {
      state = advance(state, steps);
    } else if constexpr (Reducer::kShifts) {
      if (steps > 0) {
        auto run = take_step([&](int, const Acc(&x)[UNROLL]) { return reducer.start(x); });
        KILN_NO_UNROLL for (tl::int64_t i = 1; i < steps; ++i) {
          const Acc count = static_cast<Acc>(i * UNROLL);
          run = take_step([&](int r, const Acc(&x)[UNROLL]) { return reducer.add(tl::element_of(run, r), x, count); });
        }
        const Acc count = static_cast<Acc>(steps * UNROLL);
        const auto pivot = pivots();
        state = map_elements(
            [&](const auto& so_far, int r) {
              const auto found = reducer.finish(tl::element_of(run, r), count, pivot.registers[r]);
              return kHasOuter ? reducer.combine(so_far, found) : found;  // joining with nothing costs as much
            },
            state);
      }
    } else if (steps > 0) {
      const auto run = advance(fill_tiles<S>(reducer.start()), steps);
      state = map_elements(
          [&](const auto& so_far, int r) {
            const RunEnd end{first_position, View::lane(r)};
            return reducer.combine(so_far, reducer.finish(tl::element_of(run, r), end));
          },
          state);
    }

    // The tile before the run, if it has one, then those behind it.
    tl::int64_t position = steps > 0 && shift != 0 ? run_begin - kBlock : run_end;
    KILN_NO_UNROLL while (position < last) {
      const auto mask = kept_mask & (View::reduced() < last - position) & (View::reduced() >= first - position);
      const auto valid = tl::broadcast_to_shape<S>(tl::to_values(mask));
      const auto values = tl::cast<Acc>(tl::cast<Via>(
          tl::load(segment + position * it.reduced_stride + View::offsets(it.kept_stride, it.reduced_stride), valid)));
      const tl::int32_t tile_position = outer_position + static_cast<tl::int32_t>(position - first);
      const auto pivot = pivots();
      state = map_elements(
          [&](const auto& so_far, int r) {
            const Acc x = Reducer::kShifts ? values.registers[r] - pivot.registers[r] : values.registers[r];
            const auto found = reducer.element(x, tile_position + View::lane(r));
            const auto nothing = reducer.identity();
            const bool counts = valid.registers[r];
            return reducer.combine(so_far,
                                   tl::map_parts([counts](auto x, auto y) { return counts ? x : y; }, found, nothing));
          },
          state);
      position = position < run_begin && steps > 0 ? run_end : position + kBlock;
    }
    outer_position += static_cast<tl::int32_t>(it.reduced);
  }

  const auto reduced = tl::reduce<kAxis>(state, StateCombination<Reducer>{reducer});
  return map_elements([&](const auto& element, int) { return reducer.widen(element, origin); }, reduced);
}

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
  const auto states =
      reduce_chunk<Reducer, Via, kAxis, kContiguous, BLOCK_M, BLOCK_N, UNROLL, kHasOuter>(in, it, reducer, block);
  store_results<kKeptBlock>(reducer, states, it, block, out...);
}

/// Where part `part` of the states of kept element 0 of a chunk lies.
template <typename T>
KILN_DEVICE T* part_address(tl::uint8_t* states, const ReductionIteration& it, int part, tl::int64_t chunk) {
  return reinterpret_cast<T*>(states + it.part_bytes[part]) + chunk * it.kept_total;
}

/// Reduces one of several chunks and leaves its states for reduction_combine_kernel.
template <typename Reducer, typename Via, int kAxis, bool kContiguous, int BLOCK_M, int BLOCK_N, int UNROLL,
          bool kHasOuter, typename In>
KILN_KERNEL void reduction_chunk_kernel(const In* in, ReductionIteration it, ReductionScalars scalars,
                                        tl::uint8_t* states) {
  constexpr int kKeptBlock = kAxis == 1 ? BLOCK_M : BLOCK_N;
  const Reducer reducer{scalars};
  const KeptBlock block = kept_block<kKeptBlock, kHasOuter>(it);
  const auto reduced =
      reduce_chunk<Reducer, Via, kAxis, kContiguous, BLOCK_M, BLOCK_N, UNROLL, kHasOuter>(in, it, reducer, block);
  const auto kept = tl::arange<kKeptBlock>();
  const auto mask = kept < it.kept - block.first;
  int part = 0;
  tl::map_parts(
      [&](const auto& tile) {
        using T = typename tl::remove_cvref_t<decltype(tile)>::value_type;
        tl::store(part_address<T>(states, it, part++, chunk_index(it)) + block.linear + kept, tile, mask);
        return 0;
      },
      reduced);
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
