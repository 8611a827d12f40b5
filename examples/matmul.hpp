#include <kiln/tl.hpp>

/// out = a @ b: a [m, k]; b [k, n], or with B_ALONG_K the transpose of an [n, k] matrix; out [m, n]; all contiguous.
/// Programs go through tiles of out in groups of eight rows of tiles, so that those at work at once share operands in
/// the L2 cache. Operands of f32 are rounded to tf32 on GPUs.
template <typename T, typename U, int BLOCK_M, int BLOCK_N, int BLOCK_K, int NUM_STAGES, bool B_ALONG_K>
KILN_KERNEL void matmul(const T* a, const T* b, U* out, int64_t m, int64_t n, int64_t k) {
  constexpr auto kPrecision = tl::DotPrecision::tf32;
  const int64_t tiles_m = (m + BLOCK_M - 1) / BLOCK_M, tiles_n = (n + BLOCK_N - 1) / BLOCK_N;
  const int64_t first = tl::program_id(0) / (8 * tiles_n) * 8, place = tl::program_id(0) % (8 * tiles_n);
  const int64_t height = tiles_m - first < 8 ? tiles_m - first : 8;
  const auto rows = (first + place % height) * BLOCK_M + tl::expand_dims<1>(tl::arange<BLOCK_M>());
  const int64_t left = place / height * BLOCK_N;
  const auto columns = left + tl::expand_dims<0>(tl::arange<BLOCK_N>());

  auto acc = tl::dot_accumulator<T, BLOCK_M, BLOCK_N, kPrecision>();
  const auto load_b = [&](int64_t start) {
    if constexpr (B_ALONG_K) {
      const auto steps = start + tl::expand_dims<0>(tl::arange<BLOCK_K>());
      const auto lines = left + tl::expand_dims<1>(tl::arange<BLOCK_N>());
      return tl::deferred_load(tl::trans(b + (lines * k + steps)), tl::trans((lines < n) & (steps < k)));
    } else {
      const auto steps = start + tl::expand_dims<1>(tl::arange<BLOCK_K>());
      return tl::deferred_load(b + (steps * n + columns), (steps < k) & (columns < n));
    }
  };
  tl::pipeline<NUM_STAGES>((k + BLOCK_K - 1) / BLOCK_K,
                           [&](int64_t step) {
                             const auto steps = step * BLOCK_K + tl::expand_dims<0>(tl::arange<BLOCK_K>());
                             return tl::Tuple{tl::deferred_load(a + (rows * k + steps), (rows < m) & (steps < k)),
                                              load_b(step * BLOCK_K)};
                           },
                           [&](const auto& x, const auto& y) { acc = tl::dot<kPrecision>(x, y, acc); });
  tl::store(out + (rows * n + columns), tl::cast<U>(acc), (rows < m) & (columns < n));
}
