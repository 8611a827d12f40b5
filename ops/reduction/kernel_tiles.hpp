#pragma once

#include <kiln/tl.hpp>

#include "ops/common/kernel_place.hpp"
#include "ops/reduction/functors.hpp"
#include "ops/reduction/iteration.hpp"

namespace kiln::ops {

#if defined(KILN_TARGET_CUDA)
/// Whether tiles that reach over the last kept element are loaded as others are, under a mask.
inline constexpr bool kMasksKept = true;
#else
inline constexpr bool kMasksKept = false;
#endif

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

template <int kPacket, typename T>
KILN_DEVICE bool is_at_boundary(const T* address) {
  return reinterpret_cast<tl::uint64_t>(address) % (kPacket * sizeof(T)) == 0;
}

/// `stride` as a multiple of a packet, which it is where kPacked says so: written so that the compiler knows it too and
/// leaves out the path for tiles that are not aligned.
template <bool kPacked, int kPacket>
KILN_DEVICE tl::int64_t packet_stride(tl::int64_t stride) {
  return kPacked ? stride & ~tl::int64_t{kPacket - 1} : stride;
}

/// The first element of each kept one, at `offsets` that span the kept axis, over a tile; 0 where the mask does not
/// hold.
template <typename Acc, typename Via, typename View, typename In, typename Offsets, typename Mask>
KILN_DEVICE auto first_elements(const In* in, const Offsets& offsets, const Mask& mask) {
  using S = typename View::Shape;
  const auto convert = [](const auto& loaded) { return tl::cast<Acc>(tl::cast<Via>(loaded)); };
#if defined(KILN_TARGET_CUDA)
  // Each thread loads those of its own elements: an exchange between threads would wait for them.
  return convert(tl::load(in + tl::broadcast_to<S::kRows, S::kColumns>(offsets), mask));
#else
  return tl::broadcast_to_shape<S>(convert(tl::load(in + offsets, mask)));
#endif
}

/// Which elements of a tile at reduced index `start` of a folded matrix are there.
template <typename View>
KILN_DEVICE auto folded_mask(const ReductionIteration& it, tl::int64_t elements_room, tl::int64_t start) {
  return View::reduced() * it.reduced_stride + View::kept() < elements_room - start * it.reduced_stride;
}
/// Reduced indices of it at which rows are whole.
KILN_DEVICE tl::int64_t whole_rows(const ReductionIteration& it) {
  return it.fold_elements / it.reduced_stride;
}

/// What a program takes of the tiled reduced dimension at one outer index: reduced indices first to last - 1.
template <typename In>
struct Segment {
  const In* data;  ///< of reduced index 0
  tl::int64_t first, last;
  tl::int32_t position;  ///< of `first` within the chunk
};

/// The tiles of a segment as a reducer counts them, for reducers to which there is an element that changes nothing: it
/// stands where a tile reaches over the segment's ends. kIsWhole: every reduced index is there, and every address is
/// that of a packet.
template <typename Reducer, typename Via, int kAxis, bool kContiguous, int BLOCK_M, int BLOCK_N, bool kFolded,
          typename In>
struct SegmentTiles {
  using Acc = typename Reducer::Accumulator;
  using View = TileView<kAxis, kContiguous, BLOCK_M, BLOCK_N>;
  using Shape = typename View::Shape;
  static constexpr int kBlock = View::kReducedBlock;
  static constexpr int kPacket = View::template kPacket<In>;
  /// Rows are taken from the packet's boundary before their first element on.
  static constexpr bool kShifts = View::kPacked && kAxis == 1;

  const ReductionIteration& it;
  const Reducer& reducer;
  tl::int64_t kept_room;      ///< kept elements from the block's first on
  tl::int64_t elements_room;  ///< where folded, elements from it on
  Segment<In> segment;

  KILN_DEVICE tl::int64_t begin() const {
    if constexpr (kShifts)
      return segment.first - elements_past_boundary<kPacket>(segment.data + segment.first * it.reduced_stride);
    else
      return segment.first;
  }
  /// Whether tiles within the segment are whole.
  KILN_DEVICE bool has_whole() const {
    if constexpr (!View::kPacked)
      return true;
    else if constexpr (kAxis == 1)
      return BLOCK_M == 1 || it.kept_stride % kPacket == 0;
    else
      return elements_past_boundary<kPacket>(segment.data + segment.first * it.reduced_stride) == 0 &&
             it.reduced_stride % kPacket == 0;
  }
  KILN_DEVICE auto mask(tl::int64_t start) const {
    const auto before_end = View::reduced() < segment.last - start;
    if constexpr (kShifts)
      return (View::reduced() >= segment.first - start) & before_end;
    else if constexpr (kFolded)
      return before_end & folded_mask<View>(it, elements_room, start);
    else
      return before_end;
  }
  template <bool kIsWhole>
  KILN_DEVICE auto load(tl::int64_t start) const {
    const In* const address = segment.data + start * it.reduced_stride;
    const auto kept_mask = View::kept() < kept_room;
    if constexpr (kIsWhole ? View::kPacked : kShifts && BLOCK_M == 1)
      __builtin_assume(is_at_boundary<kPacket>(address));
    if constexpr (kIsWhole) {
      const auto pointers =
          address + View::offsets(packet_stride<(View::kPacked && kAxis == 1), kPacket>(it.kept_stride),
                                  packet_stride<(View::kPacked && kAxis == 0), kPacket>(it.reduced_stride));
      if constexpr (View::kKeptBlock == 1)
        return tl::load(pointers);
      else
        return tl::load(pointers, kept_mask);
    } else {
      const auto pointers = address + View::offsets(it.kept_stride, it.reduced_stride);
      if constexpr (View::kKeptBlock == 1)
        return tl::load(pointers, mask(start));
      else
        return tl::load(pointers, kept_mask & mask(start));
    }
  }
  /// kTiles of them, all loaded before the first is looked at.
  template <bool kIsWhole, int kTiles>
  KILN_DEVICE void load(tl::int64_t start, tl::Tile<Acc, Shape> (&values)[kTiles]) const {
    tl::Tile<In, Shape> loaded[kTiles];
    KILN_UNROLL for (int u = 0; u < kTiles; ++u) loaded[u] = load<kIsWhole>(start + u * kBlock);
    KILN_UNROLL for (int u = 0; u < kTiles; ++u) {
      values[u] = tl::cast<Acc>(tl::cast<Via>(loaded[u]));
      if constexpr (!kIsWhole && !Reducer::kNeutralIsZero) {
        const auto valid = tl::broadcast_to_shape<Shape>(tl::to_values(mask(start + u * kBlock)));
        values[u] = tl::where(valid, values[u], reducer.neutral());
      }
    }
  }

  /// Adds the segment to a run, UNROLL tiles at a time. Of columns, where a thread has many registers of each, those at
  /// the segment's end come one by one.
  template <int UNROLL, typename Run>
  KILN_DEVICE Run add_to(Run run) const {
    constexpr int kCutTiles = kAxis == 1 ? UNROLL : 1;
    const tl::int64_t whole_end = !has_whole()                               ? segment.first
                                  : kFolded && whole_rows(it) < segment.last ? whole_rows(it)
                                                                             : segment.last;
    tl::int64_t start = begin();
    KILN_NO_UNROLL while (start < segment.last) {
      if (start >= segment.first && start + kBlock * UNROLL <= whole_end)
        run = add_tiles<true, UNROLL>(run, start);
      else
        run = add_tiles<false, kCutTiles>(run, start);
    }
    return run;
  }
  /// Of the first element that the lane of register r has.
  KILN_DEVICE RunEnd run_end(int r) const {
    const tl::int32_t lane = View::lane(r);
    const tl::int32_t first = segment.position + static_cast<tl::int32_t>(begin() - segment.first) + lane;
    return {lane, first < segment.position ? first + kBlock : first};
  }

 private:
  /// kTiles of them from `start` on, which it moves behind them.
  template <bool kIsWhole, int kTiles, typename Run>
  KILN_DEVICE Run add_tiles(const Run& run, tl::int64_t& start) const {
    tl::Tile<Acc, Shape> values[kTiles];
    load<kIsWhole>(start, values);
    const tl::int32_t position = segment.position + static_cast<tl::int32_t>(start - segment.first);
    start += kBlock * kTiles;
    return map_elements(
        [&](const auto& so_far, int r) {
          Acc x[kTiles];
          KILN_UNROLL for (int u = 0; u < kTiles; ++u) x[u] = values[u].registers[r];
          return reducer.template add<kBlock>(so_far, x, position);
        },
        run);
  }
};

}  // namespace kiln::ops
