#include <kiln/tl.hpp>

/// out = a[rows] @ b, where `rows` and `columns` [1, BLOCK_N] say which lines of a and b a program reads.
template <int BLOCK_K, int NUM_STAGES, typename T, typename U, typename Rows, typename Columns>
KILN_DEVICE void multiply(const T* a, const T* b, U* out, Rows rows, Columns columns, int64_t top, int64_t left,
                          int64_t m, int64_t n, int64_t k) {
  constexpr int BLOCK_M = Rows::shape::kRows, BLOCK_N = Columns::shape::kColumns;
  auto acc = tl::dot_accumulator<T, BLOCK_M, BLOCK_N>();
  tl::pipeline<NUM_STAGES>((k + BLOCK_K - 1) / BLOCK_K,
                           [&](int64_t step) {
                             const auto across = step * BLOCK_K + tl::expand_dims<0>(tl::arange<BLOCK_K>());
                             const auto down = step * BLOCK_K + tl::expand_dims<1>(tl::arange<BLOCK_K>());
                             return tl::Tuple{tl::deferred_load(a + (rows * k + across), across < k),
                                              tl::deferred_load(b + (down * n + columns), down < k)};
                           },
                           [&](const auto& x, const auto& y) { acc = tl::dot(x, y, acc); });
  const auto places = top + tl::expand_dims<1>(tl::arange<BLOCK_M>());
  const auto out_columns = left + tl::expand_dims<0>(tl::arange<BLOCK_N>());
  tl::store(out + (places * n + out_columns), tl::cast<U>(acc), (places < m) & (out_columns < n));
}

/// out = a @ b with rows and columns past the end taken from the start again, so that only k needs a mask: a [m, k],
/// b [k, n], out [m, n], contiguous.
template <typename T, int BLOCK_M, int BLOCK_N, int BLOCK_K, int NUM_STAGES>
KILN_KERNEL void wrapped_matmul(const T* a, const T* b, T* out, int64_t m, int64_t n, int64_t k) {
  const int64_t tiles_m = (m + BLOCK_M - 1) / BLOCK_M, tiles_n = (n + BLOCK_N - 1) / BLOCK_N;
  const int64_t first = tl::program_id(0) / (8 * tiles_n) * 8, place = tl::program_id(0) % (8 * tiles_n);
  const int64_t height = tiles_m - first < 8 ? tiles_m - first : 8;
  const int64_t top = (first + place % height) * BLOCK_M, left = place / height * BLOCK_N;
  multiply<BLOCK_K, NUM_STAGES>(a, b, out, (top + tl::expand_dims<1>(tl::arange<BLOCK_M>())) % m,
                                (left + tl::expand_dims<0>(tl::arange<BLOCK_N>())) % n, top, left, m, n, k);
}

/// out[i] = a[index[i]] @ b: a [any, k], index [m], b [k, n], out [m, n], contiguous.
template <typename T, int BLOCK_M, int BLOCK_N, int BLOCK_K, int NUM_STAGES>
KILN_KERNEL void matmul_of_rows(const T* a, const int32_t* index, const T* b, T* out, int64_t m, int64_t n, int64_t k) {
  const int64_t tiles_m = (m + BLOCK_M - 1) / BLOCK_M, tiles_n = (n + BLOCK_N - 1) / BLOCK_N;
  const int64_t first = tl::program_id(0) / (8 * tiles_n) * 8, place = tl::program_id(0) % (8 * tiles_n);
  const int64_t height = tiles_m - first < 8 ? tiles_m - first : 8;
  const int64_t top = (first + place % height) * BLOCK_M, left = place / height * BLOCK_N;
  const auto places = top + tl::arange<BLOCK_M>();
  const auto rows = tl::expand_dims<1>(tl::cast<int64_t>(tl::load(index + places, places < m)));
  multiply<BLOCK_K, NUM_STAGES>(a, b, out, rows, (left + tl::expand_dims<0>(tl::arange<BLOCK_N>())) % n, top, left, m,
                                n, k);
}
