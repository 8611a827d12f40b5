#pragma once

#include <kiln/tl.hpp>

#include "ops/common/kernel_place.hpp"
#include "ops/indexing/iteration.hpp"

namespace kiln::ops {

/// Where a program's tile starts.
struct IndexingPlace {
  tl::int64_t first_row, first_column;
  tl::int64_t offsets[kIndexingOperands];  ///< of the outer dimensions
};

template <int BLOCK_M, int BLOCK_N>
KILN_DEVICE IndexingPlace indexing_place(const IndexingIteration& iteration) {
  ProgramNumber rest = static_cast<ProgramNumber>(tl::program_id(0));
  IndexingPlace place{};
  place.first_column = take_coordinate(rest, iteration.column_blocks) * BLOCK_N;
  place.first_row = take_coordinate(rest, iteration.row_blocks) * BLOCK_M;
  KILN_NO_UNROLL for (int dim = 0; dim < iteration.num_outer_dims; ++dim) {
    const tl::int64_t coordinate = take_coordinate(rest, iteration.outer_extents[dim]);
    KILN_UNROLL for (int o = 0; o < kIndexingOperands; ++o) place.offsets[o] +=
        coordinate * iteration.outer_strides[o][dim];
  }
  return place;
}

/// The symbolic tile of a program: offsets of an operand, and which elements exist.
template <int BLOCK_M, int BLOCK_N>
struct IndexingTile {
  const IndexingIteration& iteration;
  const IndexingPlace place;

  KILN_DEVICE explicit IndexingTile(const IndexingIteration& it)
      : iteration(it), place(indexing_place<BLOCK_M, BLOCK_N>(it)) {}

  KILN_DEVICE auto rows() const { return tl::expand_dims<1>(place.first_row + tl::arange<BLOCK_M>()); }
  KILN_DEVICE auto columns() const { return tl::expand_dims<0>(place.first_column + tl::arange<BLOCK_N>()); }
  KILN_DEVICE auto mask() const { return (rows() < iteration.rows) & (columns() < iteration.columns); }
  KILN_DEVICE auto offsets(int operand) const {
    return place.offsets[operand] + rows() * iteration.row_strides[operand] +
           columns() * iteration.column_strides[operand];
  }
};

/// out = x at the indices; 0 where an index is outside. Tiles of any strides, element by element.
template <typename T, typename Index, int BLOCK_M, int BLOCK_N>
KILN_KERNEL void gather_kernel(T* out, const Index* index, const T* x, IndexingIteration iteration) {
  const IndexingTile<BLOCK_M, BLOCK_N> tile(iteration);
  const auto mask = tile.mask();
  const auto i = tl::cast<tl::int64_t>(tl::load(index + tile.offsets(1), mask));
  const auto inside = (i >= 0) & (i < iteration.extent);
  tl::device_assert(inside, "the index is within the dimension");
  const auto values = tl::load(x + (i * iteration.stride + tile.offsets(2)), inside & mask);
  tl::store(out + tile.offsets(0), values, mask);
}

/// The same where a whole row, dense in x and out, goes by one index: ROWS of them. x and out are bytes, and so are
/// their strides; columns are elements of type T. Between pointers to wider elements the compiler takes 16-byte stores
/// apart.
template <typename T, typename Index, int ROWS, int BLOCK_N>
KILN_KERNEL void gather_rows_kernel(tl::uint8_t* out, const Index* index, const tl::uint8_t* x,
                                    IndexingIteration iteration) {
  const IndexingPlace place = indexing_place<ROWS, BLOCK_N>(iteration);
  const tl::int64_t first_byte = place.first_column * static_cast<int>(sizeof(T));
  const auto index_at = [&](tl::int64_t row) -> tl::int64_t {
    return tl::load(index + (place.offsets[1] + row * iteration.row_strides[1]));
  };
  const auto is_inside = [&](tl::int64_t i) { return i >= 0 && i < iteration.extent; };
  const auto from = [&](tl::int64_t row, tl::int64_t i) {
    return x + (place.offsets[2] + row * iteration.row_strides[2] + i * iteration.stride + first_byte);
  };
  const auto to = [&](tl::int64_t row) {
    return out + (place.offsets[0] + row * iteration.row_strides[0] + first_byte);
  };

#if defined(KILN_TARGET_CUDA)
  // One test for all rows, and all rows are read before the first is written. What the host has made sure of: rows
  // start at multiples of 16 bytes where the tensors do.
  constexpr int kBytes = BLOCK_N * static_cast<int>(sizeof(T));
  tl::int64_t chosen[ROWS];
  bool is_direct = place.first_row + ROWS <= iteration.rows && place.first_column + BLOCK_N <= iteration.columns &&
                   (tl::misaligned_bits<kBytes>(x) | tl::misaligned_bits<kBytes>(out)) == 0;
  if (__builtin_expect(is_direct, 1)) {
    KILN_UNROLL for (int r = 0; r < ROWS; ++r) chosen[r] = index_at(place.first_row + r);
    KILN_UNROLL for (int r = 0; r < ROWS; ++r) is_direct = is_direct && is_inside(chosen[r]);
    if (__builtin_expect(is_direct, 1)) {
      const auto bytes = tl::arange<kBytes>();
      tl::Tile<tl::uint8_t, tl::Shape<kBytes>> rows[ROWS];
      KILN_UNROLL for (int r = 0; r < ROWS; ++r) rows[r] =
          tl::load(from(place.first_row + r, chosen[r]) + bytes, tl::DirectAccess{});
      KILN_UNROLL for (int r = 0; r < ROWS; ++r)
          tl::store(to(place.first_row + r) + bytes, rows[r], tl::DirectAccess{});
      return;
    }
  }
#endif
  const auto columns = tl::arange<BLOCK_N>();
  const tl::int64_t width = iteration.columns - place.first_column;
  const tl::int64_t end = place.first_row + ROWS < iteration.rows ? place.first_row + ROWS : iteration.rows;
  KILN_NO_UNROLL for (tl::int64_t row = place.first_row; row < end; ++row) {
    const tl::int64_t i = index_at(row);
    const bool inside = is_inside(i);
    tl::device_assert(inside, "the index is within the dimension");
#if defined(KILN_TARGET_CPU)
    // Apart from the masked form: where both meet, the compiler moved a short tile number by number.
    if (inside && width >= BLOCK_N) {
      tl::store(reinterpret_cast<T*>(to(row)) + columns,
                tl::load(reinterpret_cast<const T*>(from(row, i)) + columns, tl::DirectAccess{}), tl::DirectAccess{});
      continue;
    }
#endif
    // Nothing of a row outside is read: its columns end before they begin.
    const auto values =
        tl::load(reinterpret_cast<const T*>(from(row, inside ? i : 0)) + columns, columns < (inside ? width : 0));
    tl::store(reinterpret_cast<T*>(to(row)) + columns, values, columns < width);
  }
}

/// out[i] = x[i] over dense tensors of n elements. Nothing where both are the same memory.
template <typename T, int BLOCK_SIZE>
KILN_KERNEL void copy_dense_kernel(T* out, const T* x, tl::int64_t n) {
  tl::wait_for_previous();
  if (out == x) return;
  tl::cover<BLOCK_SIZE, 4>(
      tl::program_id(0), n,
      [&](const auto& offsets, const auto& mask) { tl::store(out + offsets, tl::load(x + offsets, mask), mask); }, x,
      out);
}

/// The same for any strides.
template <typename T, int BLOCK_M, int BLOCK_N>
KILN_KERNEL void copy_strided_kernel(T* out, const T* x, IndexingIteration iteration) {
  tl::wait_for_previous();
  if (out == x) return;
  const IndexingTile<BLOCK_M, BLOCK_N> tile(iteration);
  tl::store(out + tile.offsets(0), tl::load(x + tile.offsets(1), tile.mask()), tile.mask());
}

/// out at the indices += src; elements whose index is outside are left out.
template <typename T, typename Index, int BLOCK_M, int BLOCK_N>
KILN_KERNEL void scatter_add_kernel(T* out, const Index* index, const T* src, IndexingIteration iteration) {
  const IndexingTile<BLOCK_M, BLOCK_N> tile(iteration);
  const auto mask = tile.mask();
  const auto i = tl::cast<tl::int64_t>(tl::load(index + tile.offsets(1), mask));
  const auto inside = (i >= 0) & (i < iteration.extent);
  tl::device_assert(inside, "the index is within the dimension");
  tl::atomic_add(out + (i * iteration.stride + tile.offsets(0)), tl::load(src + tile.offsets(2), mask), inside & mask);
}

}  // namespace kiln::ops
