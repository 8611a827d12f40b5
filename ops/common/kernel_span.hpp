#pragma once

#include "compiler/tl/cover.hpp"

namespace kiln::ops {

#if defined(KILN_TARGET_CPU)

// How a CPU's program goes through its rows and columns. They are many, so that what a program costs is nothing beside
// them, and each row is long, so that the processor sees what comes next and fetches it.

struct Span {
  tl::int64_t begin, end;
};

/// Block `block` of `extent` elements in blocks of `size`.
KILN_DEVICE Span span_of(tl::int64_t block, tl::int64_t size, tl::int64_t extent) {
  const tl::int64_t begin = block * size;
  return {begin, extent - begin < size ? extent : begin + size};
}

template <typename M>
KILN_DEVICE tl::PartialMask<M> partial(const M& mask) {
  return {mask};
}

/// visit(row, column, mask) for tiles of BLOCK_M x BLOCK_N, row by row. What whole tiles leave of rows comes after
/// them, under one mask for all rows.
template <int BLOCK_M, int BLOCK_N, typename Visit>
KILN_DEVICE void for_each_tile(const Span& rows, const Span& columns, Visit visit) {
  const tl::int64_t whole_end = columns.begin + (columns.end - columns.begin) / BLOCK_N * BLOCK_N;
  if constexpr (BLOCK_M == 1) {
    KILN_TILE_LOOP for (tl::int64_t row = rows.begin; row < rows.end; ++row)
        KILN_TILE_LOOP for (tl::int64_t column = columns.begin; column < whole_end; column += BLOCK_N)
            visit(row, column, tl::DirectAccess{});
    if (whole_end == columns.end) return;
    const auto mask = partial(tl::expand_dims<0>(whole_end + tl::arange<BLOCK_N>()) < columns.end);
    KILN_TILE_LOOP for (tl::int64_t row = rows.begin; row < rows.end; ++row) visit(row, whole_end, mask);
  } else {
    KILN_TILE_LOOP for (tl::int64_t row = rows.begin; row < rows.end; row += BLOCK_M)
        KILN_TILE_LOOP for (tl::int64_t column = columns.begin; column < columns.end; column += BLOCK_N) {
      if (row + BLOCK_M <= rows.end && column < whole_end)
        visit(row, column, tl::DirectAccess{});
      else
        visit(row, column,
              partial((tl::expand_dims<1>(row + tl::arange<BLOCK_M>()) < rows.end) &
                      (tl::expand_dims<0>(column + tl::arange<BLOCK_N>()) < columns.end)));
    }
  }
}

/// As above for tiles of one row, each of which begins at a cache line of a row of `out`: see tl::cover_lines.
template <int BLOCK_N, typename Visit, typename Out>
KILN_DEVICE void for_each_tile_by_lines(const Span& rows, const Span& columns, const Out* out, tl::int64_t row_stride,
                                        Visit visit) {
  KILN_TILE_LOOP for (tl::int64_t row = rows.begin; row < rows.end; ++row) {
    // Of tiles shorter than a line: into one of its parts.
    const tl::int64_t past = tl::elements_into_line(out + row * row_stride + columns.begin) % BLOCK_N;
    const tl::int64_t first = columns.begin - past;
    const tl::int64_t whole_begin = past == 0 ? first : first + BLOCK_N;
    const tl::int64_t whole_end = first + (columns.end - first) / BLOCK_N * BLOCK_N;
    KILN_TILE_LOOP for (tl::int64_t column = whole_begin; column < whole_end; column += BLOCK_N)
        visit(row, column, tl::DirectAccess{});
    // The tile before these, if there is one, and the one behind them, which may be the same.
    KILN_TILE_LOOP for (tl::int64_t column = past == 0 ? whole_end : first; column < columns.end;
                        column = column < whole_end ? whole_end : columns.end) {
      const auto places = tl::expand_dims<0>(column + tl::arange<BLOCK_N>());
      visit(row, column, partial((places >= columns.begin) & (places < columns.end)));
    }
  }
}

#endif

}  // namespace kiln::ops
