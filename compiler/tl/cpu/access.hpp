#pragma once

#include "compiler/tl/cpu/element_bits.hpp"
#include "compiler/tl/cpu/program.hpp"
#include "compiler/tl/cpu/vector_bytes.hpp"
#include "compiler/tl/mask_rectangle.hpp"

namespace kiln::tl {

// Rows and columns are nested loops, with the full tile's without a condition: both vectorise, the masked ones into
// masked accesses. Of a matrix's last tile only the rows and columns that are there are named at all: a masked access
// to memory that is not there, of lanes that are off, takes a CPU a microsecond. Of a tile that registers hold it is
// the rows alone: a loop that ends at the last column would send the tile to memory and back (layer_norm of rows of 3
// in tiles of 2x4 took 3.6 times as long).
template <typename S, typename M>
inline constexpr bool kIsCutMatrix = S::kRows > 1 && is_rectangle<M>;
template <Number T, typename S>
inline constexpr bool kFitsRegisters = S::kNumel * sizeof(T) <= 2048;
/// Dense elements of less than 32 bits, of which AVX2 has no masked accesses: what there are of them is copied, where
/// LLVM would make a branch for each.
template <Number T, typename S, typename A, typename M>
inline constexpr bool kIsNarrowRow =
    S::kRows == 1 && sizeof(T) < 4 && is_rectangle<M> && is_same<typename A::column_stride_type, Constant<1>>;
template <Number T, typename S, typename M>
KILN_DEVICE unsigned long bytes_there(const M& mask) {
  const Extents there = extents_of(mask, {1, S::kColumns});
  return static_cast<unsigned long>(there.rows * there.columns) * sizeof(T);
}

/// kCount elements, of which element i lies at place(i), one by one, into vectors. LLVM would take AVX-512's gathers,
/// which are slower on Zen 4 and 5 (one thread, us: sqrt of every second column of 9788x63 f32 284 / 92, 3704 columns
/// of 136x4176 by an index 635 / 488); what is volatile it leaves alone. With AVX2 it does this by itself.
template <int kCount, Number T, typename Place>
KILN_DEVICE void load_apart(T* registers, Place place) {
  using Bits = typename ElementBits<sizeof(T)>::type;
  constexpr int kTogether = kCount % 16 == 0 ? 16 : kCount;
  KILN_TILE_LOOP for (int start = 0; start < kCount; start += kTogether) {
    Bits together[kTogether];
    _Pragma("clang loop unroll(full) vectorize(disable)") for (int i = 0; i < kTogether; ++i) together[i] =
        *reinterpret_cast<const volatile Bits*>(place(start + i));
    __builtin_memcpy(registers + start, together, sizeof(together));
  }
}

template <Number T, typename S, AffineTile A, typename M>
KILN_DEVICE Tile<T, S> load_affine(const T* data, const A& offsets, const M& mask, T other) {
  Tile<T, S> result;
  const T* const first = data + offsets.base;
  const int64_t row_stride = offsets.row_stride, column_stride = offsets.column_stride;
  // What lies in one place or side by side by strides that only a call knows is gathered.
  if (kiln_vector_bytes == 64 && mask.all() && (column_stride > 1 || column_stride < 0)) {
    for (int row = 0; row < S::kRows; ++row)
      load_apart<S::kColumns>(result.registers + row * S::kColumns,
                              [&](int column) { return first + row * row_stride + column * column_stride; });
  } else if (mask.all()) {
    for (int row = 0; row < S::kRows; ++row)
      for (int column = 0; column < S::kColumns; ++column)
        result.registers[row * S::kColumns + column] = first[row * row_stride + column * column_stride];
  } else if constexpr (kIsCutMatrix<S, M> && kFitsRegisters<T, S>) {
    const Extents there = extents_of(mask, {S::kRows, S::kColumns});
    for (int row = 0; row < S::kRows; ++row) {
      T* const registers = result.registers + row * S::kColumns;
      for (int column = 0; column < S::kColumns; ++column) registers[column] = other;
      if (row >= there.rows) continue;
      for (int column = 0; column < S::kColumns; ++column)
        registers[column] = column < there.columns ? first[row * static_cast<int64_t>(offsets.row_stride) +
                                                           column * static_cast<int64_t>(offsets.column_stride)]
                                                   : other;
    }
  } else if constexpr (kIsCutMatrix<S, M>) {
    const Extents there = extents_of(mask, {S::kRows, S::kColumns});
    for (int row = 0; row < S::kRows; ++row) {
      const int columns = row < there.rows ? there.columns : 0;
      T* const registers = result.registers + row * S::kColumns;
      for (int column = 0; column < columns; ++column)
        registers[column] = first[row * static_cast<int64_t>(offsets.row_stride) +
                                  column * static_cast<int64_t>(offsets.column_stride)];
      for (int column = columns; column < S::kColumns; ++column) registers[column] = other;
    }
  } else if (kIsNarrowRow<T, S, A, M> && kiln_vector_bytes < 64) {
    T row[S::kColumns];
    for (int column = 0; column < S::kColumns; ++column) row[column] = other;
    if constexpr (kIsNarrowRow<T, S, A, M>) __builtin_memcpy(row, first, bytes_there<T, S>(mask));
    for (int column = 0; column < S::kColumns; ++column) result.registers[column] = row[column];
  } else {
    for (int row = 0; row < S::kRows; ++row)
      for (int column = 0; column < S::kColumns; ++column) {
        const int r = row * S::kColumns + column;
        result.registers[r] = mask.at(row, column, r) ? first[row * static_cast<int64_t>(offsets.row_stride) +
                                                              column * static_cast<int64_t>(offsets.column_stride)]
                                                      : other;
      }
  }
  return result;
}

template <Number T, typename S, AffineTile A, typename L, typename M>
KILN_DEVICE void store_affine(T* data, const A& offsets, const Tile<T, S, L>& values, const M& mask) {
  T* const first = data + offsets.base;
  if (mask.all()) {
    for (int row = 0; row < S::kRows; ++row)
      for (int column = 0; column < S::kColumns; ++column)
        first[row * static_cast<int64_t>(offsets.row_stride) + column * static_cast<int64_t>(offsets.column_stride)] =
            values.registers[row * S::kColumns + column];
  } else if constexpr (kIsCutMatrix<S, M> && kFitsRegisters<T, S>) {
    const Extents there = extents_of(mask, {S::kRows, S::kColumns});
    for (int row = 0; row < S::kRows; ++row)
      if (row < there.rows)
        for (int column = 0; column < S::kColumns; ++column)
          if (column < there.columns)
            first[row * static_cast<int64_t>(offsets.row_stride) +
                  column * static_cast<int64_t>(offsets.column_stride)] = values.registers[row * S::kColumns + column];
  } else if constexpr (kIsCutMatrix<S, M>) {
    const Extents there = extents_of(mask, {S::kRows, S::kColumns});
    for (int row = 0; row < there.rows; ++row)
      for (int column = 0; column < there.columns; ++column)
        first[row * static_cast<int64_t>(offsets.row_stride) + column * static_cast<int64_t>(offsets.column_stride)] =
            values.registers[row * S::kColumns + column];
  } else if (kIsNarrowRow<T, S, A, M> && kiln_vector_bytes < 64) {
    T row[S::kColumns];
    for (int column = 0; column < S::kColumns; ++column) row[column] = values.registers[column];
    if constexpr (kIsNarrowRow<T, S, A, M>) __builtin_memcpy(first, row, bytes_there<T, S>(mask));
  } else {
    for (int row = 0; row < S::kRows; ++row)
      for (int column = 0; column < S::kColumns; ++column) {
        const int r = row * S::kColumns + column;
        if (mask.at(row, column, r))
          first[row * static_cast<int64_t>(offsets.row_stride) + column * static_cast<int64_t>(offsets.column_stride)] =
              values.registers[r];
      }
  }
}

inline constexpr int kLineBytes = 64;

/// Elements between the start of the cache line that `data` lies in and `data`.
template <Number T>
KILN_DEVICE int64_t elements_into_line(const T* data) {
  return static_cast<int64_t>(__builtin_bit_cast(uint64_t, data) % kLineBytes / sizeof(T));
}

/// As store_affine, but a full tile of whole cache lines goes to memory past the caches, unless `wanted` is false: its
/// lines are then not read before they are written. Other threads see it once run_programs has fenced.
template <Number T, typename S, AffineTile A, typename L, typename M>
KILN_DEVICE void store_affine_streaming(T* data, const A& offsets, const Tile<T, S, L>& values, const M& mask,
                                        bool wanted) {
  constexpr int kLineElements = kLineBytes / static_cast<int>(sizeof(T));
  if constexpr (S::kRows == 1 && S::kColumns % kLineElements == 0 &&
                is_same<typename A::column_stride_type, Constant<1>>) {
    // A vector type and a builtin: the vectoriser leaves loops of single streaming stores alone.
    using Line = uint32_t __attribute__((vector_size(kLineBytes)));
    T* const first = data + offsets.base;
    kiln_program[cpu::kHasStreamed] = 1;  // or may have: known to be so here, it takes no store in each tile
    if (wanted && mask.all() && __builtin_bit_cast(uint64_t, first) % kLineBytes == 0) {
      for (int start = 0; start < S::kColumns; start += kLineElements) {
        Line line;
        __builtin_memcpy(&line, values.registers + start, kLineBytes);
        __builtin_nontemporal_store(line, reinterpret_cast<Line*>(first + start));
      }
      return;
    }
  }
  store_affine<T, S>(data, offsets, values, mask);
}

template <Number T, typename S, Integer I, typename M>
KILN_DEVICE Tile<T, S> load_scattered(const T* data, const Tile<I, S>& offsets, const M& mask, T other) {
  Tile<T, S> result;
  if (kiln_vector_bytes == 64 && mask.all()) {
    load_apart<S::kNumel>(result.registers, [&](int r) { return data + offsets.registers[r]; });
    return result;
  }
  for (int r = 0; r < S::kNumel; ++r)
    result.registers[r] = mask.at(r / S::kColumns, r % S::kColumns, r) ? data[offsets.registers[r]] : other;
  return result;
}

template <Number T, typename S, Integer I, typename M>
KILN_DEVICE void store_scattered(T* data, const Tile<I, S>& offsets, const Tile<T, S>& values, const M& mask) {
  for (int r = 0; r < S::kNumel; ++r)
    if (mask.at(r / S::kColumns, r % S::kColumns, r)) data[offsets.registers[r]] = values.registers[r];
}

template <Number T>
KILN_DEVICE void store_number(T* pointer, T value) {
  *pointer = value;
}

}  // namespace kiln::tl
