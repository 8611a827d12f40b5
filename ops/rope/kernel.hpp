#pragma once

#include <kiln/tl.hpp>

#include "ops/common/kernel_place.hpp"
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

/// The cosines and sines of BLOCK_T tokens, [BLOCK_T, pairs], from token `first` on; 0 for one whose position is none.
template <RopeForm FORM, int BLOCK_T, typename C, typename I, typename Turns>
KILN_DEVICE auto rotations(const C* cos, const C* sin, const I* positions, tl::int64_t first_position,
                           tl::int64_t first, const Turns& turns, const RopeIteration& it) {
  constexpr int kPadded = FORM.padded_pairs();
  const auto rows = first + tl::expand_dims<1>(tl::arange<BLOCK_T>());
  const auto columns = tl::expand_dims<0>(tl::arange<kPadded>());
  const auto mask = within_columns<FORM.pairs()>(rows < it.tokens, columns);
  const auto along = [&](int table) {
    if constexpr (FORM.dense_tables)
      return columns;
    else
      return columns * it.table_element_strides[table];
  };
  if constexpr (!FORM.has_positions) {
    if constexpr (FORM.has_tables) {
      return tl::Tuple{tl::cast<float>(tl::load(cos + (rows * it.token_strides[2] + along(0)), mask)),
                       tl::cast<float>(tl::load(sin + (rows * it.token_strides[3] + along(1)), mask))};
    } else {
      const auto places = tl::broadcast_to<BLOCK_T, kPadded>(rows * it.token_strides[4]) + first_position;
      return cosine_and_sine(tl::cast<tl::uint64_t>(places) * turns);
    }
  } else if constexpr (BLOCK_T == 1) {
    const auto position = static_cast<tl::int64_t>(tl::load(positions + first * it.token_strides[4]));
    const bool is_one = position >= 0 && position < it.positions;
    tl::device_assert(is_one, "the position is one of the table's");
    if constexpr (FORM.has_tables) {
      const auto there = columns < (is_one ? FORM.pairs() : 0);
      const tl::int64_t row = is_one ? position : 0;
      return tl::Tuple{tl::cast<float>(tl::load(cos + row * it.table_row_strides[0] + along(0), there)),
                       tl::cast<float>(tl::load(sin + row * it.table_row_strides[1] + along(1), there))};
    } else {
      auto found = cosine_and_sine(turns * static_cast<tl::uint64_t>(position));
      const float there = is_one ? 1.0f : 0.0f;
      return tl::Tuple{found.first * there, found.second * there};
    }
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

/// A head's pairs of BLOCK_T tokens: as they are read, and as they are written.
template <RopeForm FORM, int BLOCK_T>
struct RopePairs {
  static constexpr int kPadded = FORM.padded_pairs();

  /// The Tuple of first and second numbers, [BLOCK_T, pairs].
  template <typename T, typename Rows>
  KILN_DEVICE static auto read(const T* head, const Rows& rows, long long row_stride, long long step,
                               tl::int64_t tokens) {
    const auto lines = rows < tokens;
    if constexpr (FORM.is_dense && FORM.interleaved) {
      const auto columns = tl::expand_dims<0>(tl::arange<2 * kPadded>());
      return tl::deinterleave(
          tl::load(head + (rows * row_stride + columns), within_columns<FORM.rotary_dim>(lines, columns)));
    } else {
      const auto columns = tl::expand_dims<0>(tl::arange<kPadded>());
      const auto mask = within_columns<FORM.pairs()>(lines, columns);
      return tl::Tuple{tl::load(head + (rows * row_stride + along(columns, step)), mask),
                       tl::load(head + second(step) + (rows * row_stride + along(columns, step)), mask)};
    }
  }

  template <typename T, typename Rows, typename X>
  KILN_DEVICE static void write(T* head, const Rows& rows, long long row_stride, long long step, tl::int64_t tokens,
                                const X& a, const X& b) {
    const auto lines = rows < tokens;
    if constexpr (FORM.is_dense && FORM.interleaved) {
      const auto columns = tl::expand_dims<0>(tl::arange<2 * kPadded>());
      tl::store(head + (rows * row_stride + columns), tl::interleave(a, b),
                within_columns<FORM.rotary_dim>(lines, columns));
    } else {
      const auto columns = tl::expand_dims<0>(tl::arange<kPadded>());
      const auto mask = within_columns<FORM.pairs()>(lines, columns);
      tl::store(head + (rows * row_stride + along(columns, step)), a, mask);
      tl::store(head + second(step) + (rows * row_stride + along(columns, step)), b, mask);
    }
  }

 private:
  template <typename Columns>
  KILN_DEVICE static auto along(const Columns& columns, [[maybe_unused]] long long step) {
    if constexpr (FORM.is_dense)
      return columns;
    else
      return columns * (FORM.interleaved ? 2 * step : step);
  }
  /// From a pair's first number to its second.
  KILN_DEVICE static tl::int64_t second(long long step) {
    if constexpr (FORM.is_dense)
      return FORM.pairs();
    else
      return FORM.interleaved ? step : FORM.pairs() * step;
  }
};

/// The numbers of a head's `rows` that do not turn.
template <RopeForm FORM, typename T, typename Rows>
KILN_DEVICE void copy_rest(T* out, const T* x, const Rows& rows, const RopeIteration& it) {
  const auto along = [](const auto& columns, [[maybe_unused]] long long step) {
    if constexpr (FORM.is_dense)
      return columns;
    else
      return columns * step;
  };
  KILN_NO_UNROLL for (tl::int64_t start = FORM.rotary_dim; start < it.head_dim; start += FORM.padded_pairs()) {
    const auto columns = start + tl::expand_dims<0>(tl::arange<FORM.padded_pairs()>());
    const auto mask = (rows < it.tokens) & (columns < it.head_dim);
    tl::store(out + (rows * it.token_strides[0] + along(columns, it.element_strides[0])),
              tl::load(x + (rows * it.token_strides[1] + along(columns, it.element_strides[1])), mask), mask);
  }
}

/// out = x with its pairs (a, b) turned: (a cos - b sin, b cos + a sin). Su et al., "RoFormer: Enhanced Transformer
/// with Rotary Position Embedding" (2021). A program goes through its tokens by BLOCK_T, or has
/// no more than these (ONE_TILE). Their cosines and sines serve all of its heads, of which IN_FLIGHT are read before
/// the first of them is written. A program alone reads what it writes, and reads it before, so that out may be x.
template <typename T, typename C, typename I, RopeForm FORM, int BLOCK_T, bool ONE_TILE, int IN_FLIGHT>
KILN_KERNEL void rope_kernel(T* out, const T* x, const C* cos, const C* sin, const I* positions, RopeIteration it) {
  constexpr int kPadded = FORM.padded_pairs();
  using Pairs = RopePairs<FORM, BLOCK_T>;
  ProgramNumber rest = static_cast<ProgramNumber>(tl::program_id(0));
  const tl::int64_t first_head = take_coordinate(rest, it.head_blocks) * it.program_heads;
  const tl::int64_t first_token = take_coordinate(rest, it.token_blocks) * it.program_tokens;
  [[maybe_unused]] const bool copies = out != x;
  tl::int64_t first_position = 0;
  KILN_NO_UNROLL for (int dim = 0; dim < it.num_outer_dims; ++dim) {
    const tl::int64_t coordinate = take_coordinate(rest, it.outer_extents[dim]);
    out += coordinate * it.outer_strides[0][dim];
    x += coordinate * it.outer_strides[1][dim];
    if constexpr (FORM.has_tables) {
      cos += coordinate * it.outer_strides[2][dim];
      sin += coordinate * it.outer_strides[3][dim];
    }
    if constexpr (FORM.has_positions)
      positions += coordinate * it.outer_strides[4][dim];
    else
      first_position += coordinate * it.outer_strides[4][dim];
  }
  [[maybe_unused]] const tl::int64_t end_token =
      first_token + it.program_tokens < it.tokens ? first_token + it.program_tokens : it.tokens;
  const tl::int64_t end_head = first_head + it.program_heads < it.heads ? first_head + it.program_heads : it.heads;

  const auto find_turns = [&] {
    if constexpr (FORM.has_tables)
      return 0;
    else
      return tl::map_elementwise(
          [&](tl::int32_t pair) { return turn_of_pair<FORM.pair_bits(), FORM.blends>(pair, it.turns); },
          tl::cast<tl::int32_t>(tl::broadcast_to<BLOCK_T, kPadded>(tl::expand_dims<0>(tl::arange<kPadded>()))));
  };
  const auto turn = [&](tl::int64_t token, const auto& turns) {
    const auto rows = token + tl::expand_dims<1>(tl::arange<BLOCK_T>());
    const auto [c, sine] = rotations<FORM, BLOCK_T>(cos, sin, positions, first_position, token, turns, it);
    const auto s = FORM.inverse ? -sine : sine;
    KILN_NO_UNROLL for (tl::int64_t head = first_head; head < end_head; head += IN_FLIGHT) {
      decltype(Pairs::read(x, rows, 0LL, 0LL, tl::int64_t{0})) pairs[IN_FLIGHT];
      // Of heads behind the last no token is there.
      const auto tokens_of = [&](int i) { return head + i < end_head ? it.tokens : 0; };
      KILN_UNROLL for (int i = 0; i < IN_FLIGHT; ++i) pairs[i] = Pairs::read(
          x + (head + i) * it.head_strides[1], rows, it.token_strides[1], it.element_strides[1], tokens_of(i));
      KILN_UNROLL for (int i = 0; i < IN_FLIGHT; ++i) {
        const auto a = tl::cast<float>(pairs[i].first), b = tl::cast<float>(pairs[i].second);
        Pairs::write(out + (head + i) * it.head_strides[0], rows, it.token_strides[0], it.element_strides[0],
                     tokens_of(i), tl::cast<T>(tl::fma(a, c, -(b * s))), tl::cast<T>(tl::fma(b, c, a * s)));
      }
    }
  };
  // Before the rotations, which would wait in registers.
  const auto copy = [&]([[maybe_unused]] tl::int64_t token) {
    if constexpr (FORM.copies_rest)
      KILN_NO_UNROLL for (tl::int64_t head = first_head; head < (copies ? end_head : first_head); ++head)
          copy_rest<FORM>(out + head * it.head_strides[0], x + head * it.head_strides[1],
                          token + tl::expand_dims<1>(tl::arange<BLOCK_T>()), it);
  };
  if constexpr (ONE_TILE) {
    copy(first_token);
    turn(first_token, find_turns());
  } else {
    const auto turns = find_turns();
    KILN_NO_UNROLL for (tl::int64_t token = first_token; token < end_token; token += BLOCK_T) {
      copy(token);
      turn(token, turns);
    }
  }
}

}  // namespace kiln::ops
