#pragma once

#include <kiln/tl.hpp>

#include "ops/rope/iteration.hpp"
#include "ops/rope/kernel_angle.hpp"
#include "ops/rope/kernel_form.hpp"

namespace kiln::ops {

/// `lines`, and of columns that are padded the first kCount.
template <int kCount, typename Lines, typename Columns>
KILN_DEVICE auto within_columns(const Lines& lines, const Columns& columns) {
  if constexpr (kCount == Columns::shape::kColumns)
    return lines;
  else
    return lines & (columns < kCount);
}

/// Columns of a table, 0 for cos and 1 for sin.
template <RopeForm FORM, typename Columns, typename Iteration>
KILN_DEVICE auto along_table(const Columns& columns, [[maybe_unused]] const Iteration& it, [[maybe_unused]] int table) {
  if constexpr (FORM.dense_tables)
    return columns;
  else
    return columns * it.table_element_strides[table];
}

/// How far each pair turns in one position, in ROWS equal rows; nothing where tables say it.
template <RopeForm FORM, int ROWS>
KILN_DEVICE auto turns_of_pairs([[maybe_unused]] const RopeTurns& turns) {
  if constexpr (FORM.has_tables)
    return 0;
  else
    return tl::map_elementwise(
        [&](tl::int32_t pair) { return turn_of_pair<FORM.pair_bits(), FORM.blends>(pair, turns); },
        tl::cast<tl::int32_t>(
            tl::broadcast_to<ROWS, FORM.padded_pairs()>(tl::expand_dims<0>(tl::arange<FORM.padded_pairs()>()))));
}

/// The cosines and sines of one token, in ROWS equal rows, [ROWS, pairs]: those in row `position` of the tables, or
/// what `turns` make of it; 0 where it is none.
template <RopeForm FORM, int ROWS, typename C, typename Turns, typename Iteration>
KILN_DEVICE auto rotation_at(const C* cos, const C* sin, tl::int64_t position, const Turns& turns,
                             const Iteration& it) {
  const bool is_one = position >= 0 && position < it.positions;
  tl::device_assert(is_one, "the position is one of the table's");
  if constexpr (FORM.has_tables) {
    const auto columns =
        tl::broadcast_to<ROWS, FORM.padded_pairs()>(tl::expand_dims<0>(tl::arange<FORM.padded_pairs()>()));
    const auto there = columns < (is_one ? FORM.pairs() : 0);
    const tl::int64_t row = is_one ? position : 0;
    return tl::Tuple{
        tl::cast<float>(tl::load(cos + row * it.table_row_strides[0] + along_table<FORM>(columns, it, 0), there)),
        tl::cast<float>(tl::load(sin + row * it.table_row_strides[1] + along_table<FORM>(columns, it, 1), there))};
  } else {
    const auto found = cosine_and_sine(turns * static_cast<tl::uint64_t>(position));
    const float there = is_one ? 1.0f : 0.0f;
    return tl::Tuple{found.first * there, found.second * there};
  }
}

/// The cosines and sines of BLOCK_T tokens, [BLOCK_T, pairs], from token `first` on; 0 for one whose position is none.
template <RopeForm FORM, int BLOCK_T, typename C, typename I, typename Turns>
KILN_DEVICE auto rotations(const C* cos, const C* sin, const I* positions, tl::int64_t first_position,
                           tl::int64_t first, const Turns& turns, const RopeIteration& it) {
  constexpr int kPadded = FORM.padded_pairs();
  const auto rows = first + tl::expand_dims<1>(tl::arange<BLOCK_T>());
  const auto columns = tl::expand_dims<0>(tl::arange<kPadded>());
  const auto mask = within_columns<FORM.pairs()>(rows < it.tokens, columns);
  const auto along = [&](int table) { return along_table<FORM>(columns, it, table); };
  if constexpr (!FORM.has_positions) {
    if constexpr (FORM.has_tables) {
      return tl::Tuple{tl::cast<float>(tl::load(cos + (rows * it.token_strides[2] + along(0)), mask)),
                       tl::cast<float>(tl::load(sin + (rows * it.token_strides[3] + along(1)), mask))};
    } else {
      const auto places = tl::broadcast_to<BLOCK_T, kPadded>(rows * it.token_strides[4]) + first_position;
      return cosine_and_sine(tl::cast<tl::uint64_t>(places) * turns);
    }
  } else if constexpr (BLOCK_T == 1) {
    return rotation_at<FORM, 1>(cos, sin, static_cast<tl::int64_t>(tl::load(positions + first * it.token_strides[4])),
                                turns, it);
  } else {
    // Of each element's own row, so that every thread has what it needs.
    const auto places = tl::cast<tl::int64_t>(
        tl::load(positions + tl::broadcast_to<BLOCK_T, kPadded>(rows * it.token_strides[4]), rows < it.tokens));
    const auto is_one = (places >= 0) & (places < it.positions);
    tl::device_assert(is_one, "the position is one of the table's");
    if constexpr (FORM.has_tables) {
      const auto found = tl::cast<tl::int64_t>(tl::load(positions + rows * it.token_strides[4], rows < it.tokens));
      const auto row = tl::where((found >= 0) & (found < it.positions), found, tl::int64_t{0});
      // A table without rows has nothing to read.
      const auto there = within_columns<FORM.pairs()>(rows < (it.positions > 0 ? it.tokens : 0), columns);
      const auto c = tl::load(cos + (row * it.table_row_strides[0] + along(0)), there);
      const auto s = tl::load(sin + (row * it.table_row_strides[1] + along(1)), there);
      return tl::Tuple{tl::where(is_one, tl::cast<float>(c), 0.0f), tl::where(is_one, tl::cast<float>(s), 0.0f)};
    } else {
      const auto found = cosine_and_sine(tl::cast<tl::uint64_t>(places) * turns);
      return tl::Tuple{tl::where(is_one, found.first, 0.0f), tl::where(is_one, found.second, 0.0f)};
    }
  }
}

}  // namespace kiln::ops
