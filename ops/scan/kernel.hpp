#pragma once

#include <kiln/tl.hpp>

#include "ops/common/kernel_place.hpp"
#include "ops/scan/iteration.hpp"

namespace kiln::ops {

struct CumulativeSum {
  using Combine = tl::SumOp;
  static constexpr int kNeutral = 0;
};
struct CumulativeProduct {
  using Combine = tl::ProdOp;
  static constexpr int kNeutral = 1;
};

/// Where a program works: its chunk of the length, its first line among
/// `lines`, the outer index and the operands' offsets of that.
struct ScanPlace {
  tl::int64_t chunk, first_line, outer;
  tl::int64_t offsets[kScanOperands];
};

template <int BLOCK_LINES>
KILN_DEVICE ScanPlace scan_place(const ScanIteration& iteration) {
  ProgramNumber rest = static_cast<ProgramNumber>(tl::program_id(0));
  ScanPlace place{};
  place.chunk = take_coordinate(rest, iteration.chunks);
  place.first_line = take_coordinate(rest, iteration.line_blocks) * BLOCK_LINES;
  place.outer = static_cast<tl::int64_t>(rest);
  KILN_NO_UNROLL for (int dim = 0; dim < iteration.num_outer_dims; ++dim) {
    const tl::int64_t coordinate = take_coordinate(rest, iteration.outer_extents[dim]);
    KILN_UNROLL for (int operand = 0; operand < kScanOperands; ++operand) place.offsets[operand] +=
        coordinate * iteration.outer_strides[operand][dim];
  }
  return place;
}

/// Indices along the lines and across them, shaped for a tile whose rows are
/// lines (ALONG_ROWS) or whose columns are.
template <int BLOCK_LENGTH, bool ALONG_ROWS>
KILN_DEVICE auto scan_positions(tl::int64_t first) {
  return tl::expand_dims<ALONG_ROWS ? 0 : 1>(first + tl::arange<BLOCK_LENGTH>());
}
template <int BLOCK_LINES, bool ALONG_ROWS>
KILN_DEVICE auto scan_lines_of(tl::int64_t first) {
  return tl::expand_dims<ALONG_ROWS ? 1 : 0>(first + tl::arange<BLOCK_LINES>());
}

template <bool kContiguous, typename Indices>
KILN_DEVICE auto scan_scaled(const Indices& indices, tl::int64_t stride) {
  if constexpr (kContiguous)
    return indices;
  else
    return indices * stride;
}

/// An operand's offsets at those indices. CONTIGUOUS has a bit for each operand
/// that is dense along the tile's columns.
template <int OPERAND, bool ALONG_ROWS, int CONTIGUOUS, typename Lines, typename Positions>
KILN_DEVICE auto scan_offsets(const ScanIteration& iteration, const ScanPlace& place, const Lines& lines,
                              const Positions& positions) {
  constexpr bool kContiguous = ((CONTIGUOUS >> OPERAND) & 1) != 0;
  constexpr bool kDenseLines = kContiguous && !ALONG_ROWS, kDensePositions = kContiguous && ALONG_ROWS;
  return place.offsets[OPERAND] + scan_scaled<kDenseLines>(lines, iteration.line_strides[OPERAND]) +
         scan_scaled<kDensePositions>(positions, iteration.length_strides[OPERAND]);
}

template <int BLOCK_LINES, int BLOCK_LENGTH, bool ALONG_ROWS, typename Acc>
KILN_DEVICE auto scan_tile_of(Acc value) {
  if constexpr (ALONG_ROWS)
    return tl::full<Acc, BLOCK_LINES, BLOCK_LENGTH>(value);
  else
    return tl::full<Acc, BLOCK_LENGTH, BLOCK_LINES>(value);
}

/// out = running combinations of in, cast to Out and then accumulated in Acc,
/// along each line. Chunks after the first start from partials[line * chunks +
/// chunk - 1], the combination of all chunks before.
template <typename Functor, typename Acc, int BLOCK_LINES, int BLOCK_LENGTH, bool ALONG_ROWS, int CONTIGUOUS,
          typename Out, typename In>
KILN_KERNEL void scan_kernel(Out* out, const In* in, const Acc* partials, ScanIteration iteration) {
  constexpr int kAxis = ALONG_ROWS ? 1 : 0;
  constexpr typename Functor::Combine combine{};
  const ScanPlace place = scan_place<BLOCK_LINES>(iteration);
  const auto lines = scan_lines_of<BLOCK_LINES, ALONG_ROWS>(place.first_line);
  // A tile of what came before, the same along each line: broadcast in place,
  // it takes no more registers than a line.
  auto carry = scan_tile_of<BLOCK_LINES, BLOCK_LENGTH, ALONG_ROWS>(static_cast<Acc>(Functor::kNeutral));
  if (place.chunk > 0) {
    const tl::int64_t outer_line = place.outer * iteration.lines, before = place.chunk - 1;
    if constexpr (BLOCK_LINES == 1) {
      carry = scan_tile_of<1, BLOCK_LENGTH, ALONG_ROWS>(
          tl::load(partials + (outer_line + place.first_line) * iteration.chunks + before));
    } else {
      const auto none = scan_positions<BLOCK_LENGTH, ALONG_ROWS>(0) * 0;
      carry = tl::load(partials + ((lines + outer_line) * iteration.chunks + before + none),
                       (lines < iteration.lines) & (none < 1));
    }
  }
  const tl::int64_t chunk_end = (place.chunk + 1) * iteration.chunk_length;
  const tl::int64_t end = chunk_end < iteration.length ? chunk_end : iteration.length;
  KILN_NO_UNROLL for (tl::int64_t first = place.chunk * iteration.chunk_length; first < end; first += BLOCK_LENGTH) {
    const auto positions = scan_positions<BLOCK_LENGTH, ALONG_ROWS>(first);
    const auto mask = (lines < iteration.lines) & (positions < end);
    const auto tile = tl::cast<Acc>(
        tl::cast<Out>(tl::load(in + scan_offsets<kScanIn, ALONG_ROWS, CONTIGUOUS>(iteration, place, lines, positions),
                               mask, Functor::kNeutral)));
    const auto [scanned, totals] = tl::associative_scan_with_totals<kAxis>(tile, combine);
    tl::store(out + scan_offsets<kScanOut, ALONG_ROWS, CONTIGUOUS>(iteration, place, lines, positions),
              tl::cast<Out>(tl::map_elementwise(combine, carry, scanned)), mask);
    carry = tl::map_elementwise(combine, carry, tl::expand_dims<kAxis>(totals));
  }
}

/// partials[line * chunks + chunk] = the combination of each chunk of each
/// line.
template <typename Functor, typename Acc, int BLOCK_LINES, int BLOCK_LENGTH, bool ALONG_ROWS, int CONTIGUOUS,
          typename Out, typename In>
KILN_KERNEL void scan_partials_kernel(Acc* partials, const In* in, ScanIteration iteration) {
  constexpr int kAxis = ALONG_ROWS ? 1 : 0;
  constexpr typename Functor::Combine combine{};
  const ScanPlace place = scan_place<BLOCK_LINES>(iteration);
  const auto lines = scan_lines_of<BLOCK_LINES, ALONG_ROWS>(place.first_line);
  auto total = scan_tile_of<BLOCK_LINES, BLOCK_LENGTH, ALONG_ROWS>(static_cast<Acc>(Functor::kNeutral));
  const tl::int64_t chunk_end = (place.chunk + 1) * iteration.chunk_length;
  const tl::int64_t end = chunk_end < iteration.length ? chunk_end : iteration.length;
  KILN_NO_UNROLL for (tl::int64_t first = place.chunk * iteration.chunk_length; first < end; first += BLOCK_LENGTH) {
    const auto positions = scan_positions<BLOCK_LENGTH, ALONG_ROWS>(first);
    const auto tile = tl::load(in + scan_offsets<kScanIn, ALONG_ROWS, CONTIGUOUS>(iteration, place, lines, positions),
                               (lines < iteration.lines) & (positions < end), Functor::kNeutral);
    total = tl::map_elementwise(combine, total, tl::cast<Acc>(tl::cast<Out>(tile)));
  }
  const auto places = place.first_line + tl::arange<BLOCK_LINES>();
  tl::store(partials + ((places + place.outer * iteration.lines) * iteration.chunks + place.chunk),
            tl::reduce<kAxis>(total, combine), places < iteration.lines);
}

}  // namespace kiln::ops
