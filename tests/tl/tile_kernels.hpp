#pragma once

#include <kiln/tl.hpp>

// Kernels that exercise one piece of the tile language each; tile_language_test.cpp runs them on every target there is.

namespace tile_kernels {

/// out = {sum, max, min} over an axis of x[M, N], three rows of results.
template <typename T, int M, int N, int AXIS>
KILN_KERNEL void reduce_axis_kernel(const T* x, T* out) {
  const auto rows = tl::expand_dims<1>(tl::arange<M>());
  const auto columns = tl::expand_dims<0>(tl::arange<N>());
  const auto tile = tl::load(x + (rows * N + columns));
  constexpr int kLength = AXIS == 1 ? M : N;
  const auto places = tl::arange<kLength>();
  tl::store(out + places, tl::sum<AXIS>(tile));
  tl::store(out + (places + kLength), tl::max<AXIS>(tile));
  tl::store(out + (places + 2 * kLength), tl::min<AXIS>(tile));
}

/// out = {sum, max, min} of the first n elements of x.
template <typename T, int BLOCK_SIZE>
KILN_KERNEL void reduce_all_kernel(const T* x, T* out, int64_t n) {
  const auto offsets = tl::arange<BLOCK_SIZE>();
  const auto mask = offsets < n;
  const auto tile = tl::load(x + offsets, mask);
  tl::store(out, tl::sum(tile));
  tl::store(out + 1, tl::max(tl::load(x + offsets, mask, tl::load(x))));
  tl::store(out + 2, tl::min(tl::load(x + offsets, mask, tl::load(x))));
}

/// Row softmax, as in the manual.
template <typename T, int BLOCK_SIZE>
KILN_KERNEL void softmax_kernel(const T* x, T* out, int64_t n_cols, int64_t row_stride) {
  auto cols = tl::arange<BLOCK_SIZE>();
  auto mask = cols < n_cols;
  auto row = tl::cast<float>(tl::load(x + tl::program_id(0) * row_stride + cols, mask, -INFINITY));
  auto e = tl::exp(row - tl::max(row));
  tl::store(out + tl::program_id(0) * row_stride + cols, tl::cast<T>(e / tl::sum(e)), mask);
}

/// out[i, j] = x[i, j] / sum_j x[i, j] + column[i] * row[j], with row and column loaded as one-dimensional tiles.
template <typename T, int M, int N>
KILN_KERNEL void broadcast_kernel(const T* x, const T* column, const T* row, T* out, int64_t m, int64_t n) {
  const auto i = tl::expand_dims<1>(tl::program_id(0) * M + tl::arange<M>());
  const auto j = tl::expand_dims<0>(tl::program_id(1) * N + tl::arange<N>());
  const auto mask = (i < m) & (j < n);
  const auto tile = tl::load(x + (i * n + j), mask);
  const auto sums = tl::sum<1>(tile);
  const auto c =
      tl::load(column + (tl::program_id(0) * M + tl::arange<M>()), tl::program_id(0) * M + tl::arange<M>() < m);
  const auto r = tl::load(row + (tl::program_id(1) * N + tl::arange<N>()), tl::program_id(1) * N + tl::arange<N>() < n);
  tl::store(out + (i * n + j), tile / tl::expand_dims<1>(sums) + tl::expand_dims<1>(c) * tl::expand_dims<0>(r), mask);
}

template <typename From, typename To, int BLOCK_SIZE>
KILN_KERNEL void cast_kernel(const From* x, To* out, int64_t n) {
  const auto offsets = tl::program_id(0) * BLOCK_SIZE + tl::arange<BLOCK_SIZE>();
  tl::store(out + offsets, tl::cast<To>(tl::load(x + offsets, offsets < n)), offsets < n);
}

/// Copies where offset % 3 == 0 or offset >= high, unless offset == skipped; elsewhere out keeps what it has. A mask
/// that is false is never read: x has only n elements.
template <typename T, int BLOCK_SIZE>
KILN_KERNEL void mask_kernel(const T* x, T* out, int64_t n, int64_t high, int64_t skipped) {
  const auto offsets = tl::program_id(0) * BLOCK_SIZE + tl::arange<BLOCK_SIZE>();
  const auto inside = offsets < n;
  const auto chosen = ((offsets % 3 == 0) | (offsets >= high)) & !(offsets == skipped) & inside;
  tl::store(out + offsets, tl::load(x + offsets, chosen), chosen);
}

/// out[indices[i]] = x[n - 1 - i]: computed offsets on one side, a stride of -1 on the other.
template <typename T, int BLOCK_SIZE>
KILN_KERNEL void permute_kernel(const T* x, const int32_t* indices, T* out, int64_t n) {
  const auto offsets = tl::program_id(0) * BLOCK_SIZE + tl::arange<BLOCK_SIZE>();
  const auto mask = offsets < n;
  const auto where_to = tl::load(indices + offsets, mask);
  tl::store(out + where_to, tl::load(x + (n - 1) + (-offsets), mask), mask);
}

/// out[i, j] = x[i * row_stride + j * column_stride] for any strides, and 0 past the ends.
template <typename T, int M, int N>
KILN_KERNEL void strided_kernel(const T* x, T* out, int64_t m, int64_t n, int64_t row_stride, int64_t column_stride) {
  const auto i = tl::expand_dims<1>(tl::program_id(1) * M + tl::arange<M>());
  const auto j = tl::expand_dims<0>(tl::program_id(0) * N + tl::arange<N>());
  const auto mask = (i < m) & (j < n);
  tl::store(out + (i * n + j), tl::load(x + (i * row_stride + j * column_stride), mask), mask);
}

/// x / y and x % y as C++ has them, made total.
template <typename T, int BLOCK_SIZE>
KILN_KERNEL void divide_kernel(const T* x, const T* y, T* quotient, T* remainder, int64_t n) {
  const auto offsets = tl::program_id(0) * BLOCK_SIZE + tl::arange<BLOCK_SIZE>();
  const auto mask = offsets < n;
  const auto a = tl::load(x + offsets, mask);
  const auto b = tl::load(y + offsets, mask);
  tl::store(quotient + offsets, a / b, mask);
  tl::store(remainder + offsets, a % b, mask);
}

/// out[5 k + c] for k = 0 ... 7: whether index base + k of a symbolic tile is <, <=, >, >= bound and < the unsigned
/// bound, 77 where it is not.
template <int KIND, int BLOCK_SIZE>
KILN_KERNEL void bounds_kernel(int32_t* out, int64_t base, int64_t bound, int64_t stride) {
  const auto places = tl::arange<BLOCK_SIZE>() * 5;
  const auto compare = [&](const auto& values) {
    tl::store(out + places, 1, values < bound);
    tl::store(out + (places + 1), 1, values <= bound);
    tl::store(out + (places + 2), 1, values > bound);
    tl::store(out + (places + 3), 1, values >= bound);
    tl::store(out + (places + 4), 1, values < static_cast<uint64_t>(bound));
  };
  if constexpr (KIND == 0)
    compare(base + tl::arange<BLOCK_SIZE>());
  else
    compare(base + tl::arange<BLOCK_SIZE>() * stride);
}

/// out[i, j] = x[i, j] where an index of one element, broadcast, is less than one.
template <typename T, int M, int N>
KILN_KERNEL void one_element_kernel(const T* x, T* out) {
  const auto one = tl::arange<1>();
  const auto rows = tl::expand_dims<1>(one + tl::arange<M>());
  const auto columns = tl::broadcast_to<M, N>(tl::expand_dims<0>(one)) + tl::expand_dims<0>(tl::arange<N>() + one);
  const auto mask = (tl::expand_dims<1>(one) < 1) & (columns < N);
  tl::store(out + (rows * N + columns), tl::load(x + (rows * N + columns), mask), mask);
}

/// out = {largest column sum, sum of all, 3 * row sum for each row} of x[M, N]: reductions of what reductions leave, in
/// their layouts.
template <typename T, int M, int N>
KILN_KERNEL void reduce_twice_kernel(const T* x, T* out) {
  const auto tile = tl::load(x + (tl::expand_dims<1>(tl::arange<M>()) * N + tl::expand_dims<0>(tl::arange<N>())));
  const auto sums = tl::sum<1>(tile);
  tl::store(out, tl::max(tl::sum<0>(tile)));
  tl::store(out + (1 + tl::arange<1>()), tl::sum<0>(tl::expand_dims<1>(sums)));
  tl::store(out + (2 + tl::arange<M>()), tl::fma(sums, tl::full<T, M>(T(2)), sums));
}

/// Integers beside narrower tiles: three rows of product, comparison with a parameter and with a literal.
template <typename T, int BLOCK_SIZE>
KILN_KERNEL void scalar_kernel(const T* x, int64_t* out, int64_t factor, int64_t bound) {
  const auto places = tl::arange<BLOCK_SIZE>();
  const auto tile = tl::load(x + places);
  tl::store(out + places, tile * factor);
  tl::store(out + (places + BLOCK_SIZE), tile < bound);
  tl::store(out + (places + 2 * BLOCK_SIZE), 1000 > tile);
}

}  // namespace tile_kernels
