#pragma once

#include "compiler/tl/cpu/access.hpp"
#include "compiler/tl/separable_arithmetic.hpp"

namespace kiln::tl {

/// What an axis adds to the offsets of line i.
template <typename Axis>
KILN_DEVICE int64_t axis_offset(const Axis& axis, int i) {
  if constexpr (is_tile<Axis>)
    return axis.registers[i];
  else
    return axis.at(i);
}

/// element(offset, r) for the elements that the mask holds for, and masked(r) for the others. Rows that are contiguous
/// are loops without a condition, which vectorise.
template <typename S, SeparableTile X, typename M, typename F, typename G>
KILN_DEVICE void for_each_separable(const X& offsets, const M& mask, F element, G masked) {
  using Columns = typename X::columns_type;
  const bool all = mask.all();
  Extents there{S::kRows, S::kColumns};
  if constexpr (is_rectangle<M>) there = extents_of(mask, there);
  for (int row = 0; row < S::kRows; ++row) {
    const int64_t first = offsets.affine.at(row, 0) + axis_offset(offsets.rows, row);
    const auto offset_of = [&](int column) {
      return first + column * static_cast<int64_t>(offsets.affine.column_stride) +
             axis_offset(offsets.columns, is_same<Columns, NoAxis> ? 0 : column);
    };
    if (all || is_rectangle<M>) {
      const int columns = row < there.rows ? there.columns : 0;
      for (int column = 0; column < columns; ++column) element(offset_of(column), row * S::kColumns + column);
      for (int column = columns; column < S::kColumns; ++column) masked(row * S::kColumns + column);
    } else {
      for (int column = 0; column < S::kColumns; ++column) {
        const int r = row * S::kColumns + column;
        if (mask.at(row, column, r))
          element(offset_of(column), r);
        else
          masked(r);
      }
    }
  }
}

template <Number T, typename S, SeparableTile X, typename M>
KILN_DEVICE Tile<T, S> load_separable(const T* data, const X& offsets, const M& mask, T other) {
  if constexpr (X::kMayBeAffine)
    if (offsets.is_affine()) return load_affine<T, S>(data, offsets.as_affine(), mask, other);
  Tile<T, S> result;
  for_each_separable<S>(
      offsets, mask, [&](int64_t offset, int r) { result.registers[r] = data[offset]; },
      [&](int r) { result.registers[r] = other; });
  return result;
}

template <Number T, typename S, SeparableTile X, typename M>
KILN_DEVICE void store_separable(T* data, const X& offsets, const Tile<T, S>& values, const M& mask) {
  if constexpr (X::kMayBeAffine)
    if (offsets.is_affine()) return store_affine<T, S>(data, offsets.as_affine(), values, mask);
  for_each_separable<S>(offsets, mask, [&](int64_t offset, int r) { data[offset] = values.registers[r]; }, [](int) {});
}

}  // namespace kiln::tl
