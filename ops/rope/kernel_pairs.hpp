#pragma once

#include <kiln/tl.hpp>

#include "ops/rope/kernel_form.hpp"
#include "ops/rope/kernel_rotation.hpp"

namespace kiln::ops {

/// The pairs of a tile's rows, each a head of a token: as they are read, and as they are written. A row is one of those
/// before `end`.
template <RopeForm FORM>
struct RopePairs {
  static constexpr int kPadded = FORM.padded_pairs();

  /// The Tuple of first and second numbers, [rows, pairs].
  template <typename T, typename Rows>
  KILN_DEVICE static auto read(const T* head, const Rows& rows, long long row_stride, long long step, tl::int64_t end) {
    const auto lines = rows < end;
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
  KILN_DEVICE static void write(T* head, const Rows& rows, long long row_stride, long long step, tl::int64_t end,
                                const X& a, const X& b) {
    const auto lines = rows < end;
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

struct AsTheyAre {
  template <typename X>
  KILN_DEVICE X operator()(const X& x) const {
    return x;
  }
};

/// numbers_of() a row's elements from column `first` to before `end_column`, PADDED at a time.
template <RopeForm FORM, int PADDED, typename Out, typename T, typename Rows, typename Numbers = AsTheyAre>
KILN_DEVICE void copy_columns(Out* out, long long out_row, long long out_step, const T* x, long long x_row,
                              long long x_step, const Rows& rows, tl::int64_t end, tl::int64_t first,
                              tl::int64_t end_column, const Numbers& numbers_of = {}) {
  const auto along = [](const auto& columns, [[maybe_unused]] long long step) {
    if constexpr (FORM.is_dense)
      return columns;
    else
      return columns * step;
  };
  KILN_NO_UNROLL for (tl::int64_t start = first; start < end_column; start += PADDED) {
    const auto columns = start + tl::expand_dims<0>(tl::arange<PADDED>());
    const auto mask = (rows < end) & (columns < end_column);
    tl::store(out + (rows * out_row + along(columns, out_step)),
              numbers_of(tl::load(x + (rows * x_row + along(columns, x_step)), mask)), mask);
  }
}

}  // namespace kiln::ops
