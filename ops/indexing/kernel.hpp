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

/// The smaller of what there is and what a program takes of it.
KILN_DEVICE tl::int64_t end_of(tl::int64_t first, tl::int64_t block, tl::int64_t extent) {
  return first + block < extent ? first + block : extent;
}

/// out = x at the indices; 0 where an index is outside. Blocks of any strides: tiles on GPUs, on CPUs one element after
/// the other, for which vectors of indices and their masks take two to four times as long.
template <typename T, typename Index, int BLOCK_M, int BLOCK_N>
KILN_KERNEL void gather_kernel(T* out, const Index* index, const T* x, IndexingIteration iteration) {
#if defined(KILN_TARGET_CPU)
  const IndexingPlace place = indexing_place<BLOCK_M, BLOCK_N>(iteration);
  const tl::int64_t row_end = end_of(place.first_row, BLOCK_M, iteration.rows);
  const tl::int64_t column_end = end_of(place.first_column, BLOCK_N, iteration.columns);
  const auto extent = static_cast<tl::uint64_t>(iteration.extent);
  // Indices and results side by side, of the same part of x: the loop that needs no strides.
  const bool is_along =
      iteration.column_strides[0] == 1 && iteration.column_strides[1] == 1 && iteration.column_strides[2] == 0;
  KILN_TILE_LOOP for (tl::int64_t row = place.first_row; row < row_end; ++row) {
    const auto start = [&](int operand) {
      return place.offsets[operand] + row * iteration.row_strides[operand] +
             place.first_column * iteration.column_strides[operand];
    };
    T* to = out + start(0);
    const Index* indices = index + start(1);
    const T* from = x + start(2);
    const auto take = [&](T* written, const Index* at, const T* first) {
      const auto i = tl::cast<tl::int64_t>(tl::load(at));
      const bool inside = static_cast<tl::uint64_t>(i) < extent;
      tl::device_assert(inside, "the index is within the dimension");
      T value{};
      if (inside) value = tl::load(first + i * iteration.stride);
      tl::store(written, value);
    };
    const tl::int64_t columns = column_end - place.first_column;
    if (is_along) {
      KILN_TILE_LOOP for (tl::int64_t c = 0; c < columns; ++c) take(to + c, indices + c, from);
    } else {
      KILN_TILE_LOOP for (tl::int64_t left = columns; left > 0; --left) {
        take(to, indices, from);
        to += iteration.column_strides[0];
        indices += iteration.column_strides[1];
        from += iteration.column_strides[2];
      }
    }
  }
#else
  const IndexingTile<BLOCK_M, BLOCK_N> tile(iteration);
  const auto mask = tile.mask();
  const auto i = tl::cast<tl::int64_t>(tl::load(index + tile.offsets(1), mask));
  const auto inside = (i >= 0) & (i < iteration.extent);
  tl::device_assert(inside, "the index is within the dimension");
  const auto values = tl::load(x + (i * iteration.stride + tile.offsets(2)), inside & mask);
  tl::store(out + tile.offsets(0), values, mask);
#endif
}

#if defined(KILN_TARGET_CPU)
/// Copies n bytes in pieces of kBytes, the last of which ends at the last byte.
template <int kBytes>
KILN_DEVICE void copy_pieces(tl::uint8_t* to, const tl::uint8_t* from, tl::int64_t n) {
  KILN_TILE_LOOP for (tl::int64_t i = 0; i + kBytes < n; i += kBytes) __builtin_memcpy(to + i, from + i, kBytes);
  __builtin_memcpy(to + (n - kBytes), from + (n - kBytes), kBytes);
}
KILN_DEVICE void copy_bytes(tl::uint8_t* to, const tl::uint8_t* from, tl::int64_t n) {
  if (n >= 64)
    copy_pieces<64>(to, from, n);
  else if (n >= 32)
    copy_pieces<32>(to, from, n);
  else if (n >= 16)
    copy_pieces<16>(to, from, n);
  else if (n >= 8)
    copy_pieces<8>(to, from, n);
  else
    __builtin_memcpy(to, from, static_cast<unsigned long>(n));
}
#endif

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
  const auto is_inside = [extent = static_cast<tl::uint64_t>(iteration.extent)](tl::int64_t i) {
    return static_cast<tl::uint64_t>(i) < extent;
  };
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
  const tl::int64_t width = iteration.columns - place.first_column;
  const tl::int64_t end = end_of(place.first_row, ROWS, iteration.rows);
#if defined(KILN_TARGET_CPU)
  // Pointers that go along: strides multiplied for each row take longer than a short row.
  constexpr int kRowsAhead = 8;
  const tl::int64_t count = end - place.first_row;
  // Rows are fetched ahead where they may be far away.
  constexpr tl::int64_t kNearBytes = 1 << 18;
  const tl::int64_t least_left = iteration.extent * iteration.stride > kNearBytes ? kRowsAhead : count;
  const auto copy_rows = [&](const auto& copy) {
    const Index* indices = index + (place.offsets[1] + place.first_row * iteration.row_strides[1]);
    const tl::uint8_t* rows = from(place.first_row, 0);
    tl::uint8_t* written = to(place.first_row);
    KILN_NO_UNROLL for (tl::int64_t left = count; left > 0; --left) {
      const auto i = tl::cast<tl::int64_t>(tl::load(indices));
      if (left > least_left)
        __builtin_prefetch(rows + (tl::cast<tl::int64_t>(tl::load(indices + kRowsAhead * iteration.row_strides[1])) *
                                       iteration.stride +
                                   kRowsAhead * iteration.row_strides[2]));
      tl::device_assert(is_inside(i), "the index is within the dimension");
      copy(written, rows + i * iteration.stride, is_inside(i));
      indices += iteration.row_strides[1];
      rows += iteration.row_strides[2];
      written += iteration.row_strides[0];
    }
  };
  const tl::int64_t bytes = (width < BLOCK_N ? width : BLOCK_N) * static_cast<int>(sizeof(T));
  // What many short rows have has a loop of its own, without a test of how long a row is.
  const auto copy_short_rows = [&]<typename Row>(Row) {
    copy_rows([](tl::uint8_t* written, const tl::uint8_t* row, bool inside) {
      Row value{};
      if (inside) __builtin_memcpy(&value, row, sizeof(Row));
      __builtin_memcpy(written, &value, sizeof(Row));
    });
  };
  if (bytes == 8) return copy_short_rows(tl::uint64_t{});
  if (bytes == 16) return copy_short_rows(static_cast<unsigned __int128>(0));
  copy_rows([&](tl::uint8_t* written, const tl::uint8_t* row, bool inside) {
    if (inside)
      copy_bytes(written, row, bytes);
    else
      __builtin_memset(written, 0, static_cast<unsigned long>(bytes));
  });
#else
  KILN_NO_UNROLL for (tl::int64_t row = place.first_row; row < end; ++row) {
    const tl::int64_t i = index_at(row);
    const bool inside = is_inside(i);
    tl::device_assert(inside, "the index is within the dimension");
    // Nothing of a row outside is read: its columns end before they begin.
    const auto columns = tl::arange<BLOCK_N>();
    const auto values =
        tl::load(reinterpret_cast<const T*>(from(row, inside ? i : 0)) + columns, columns < (inside ? width : 0));
    tl::store(reinterpret_cast<T*>(to(row)) + columns, values, columns < width);
  }
#endif
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
