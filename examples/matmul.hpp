#include <kiln/tl.hpp>

/// out = a @ b: a [m, k]; b [k, n], or with B_ALONG_K the transpose of an [n, k] matrix; out [m, n]; all contiguous.
/// A program makes a tile of out after the other, as many further as there are programs. Tiles are numbered in groups
/// of eight rows of them, which share operands in the L2 cache. Operands of f32 are rounded to tf32 on GPUs.
template <typename T, typename U, int BLOCK_M, int BLOCK_N, int BLOCK_K, int NUM_STAGES, bool B_ALONG_K>
KILN_KERNEL void matmul(const T* a, const T* b, U* out, int64_t m, int64_t n, int64_t k) {
  constexpr auto kTf32 = tl::DotPrecision::tf32;
  const auto tiles_m = uint32_t(tl::cdiv(m, BLOCK_M)), tiles_n = uint32_t(tl::cdiv(n, BLOCK_N));
  const auto begin = uint32_t(tl::program_id(0)), programs = uint32_t(tl::num_programs(0));
  const auto corner_of = [&](int64_t tile) {
    const uint32_t number = begin + uint32_t(tile) * programs, place = number % (8 * tiles_n);
    const uint32_t first = number / (8 * tiles_n) * 8, height = tiles_m - first < 8 ? tiles_m - first : 8;
    return tl::Tuple{int64_t{first + place % height} * BLOCK_M, int64_t{place / height} * BLOCK_N};
  };
  auto acc = tl::dot_accumulator<T, BLOCK_M, BLOCK_N, kTf32>();
  const auto loads = [&](int64_t tile, int64_t step) {
    const auto [top, left] = corner_of(tile);
    const auto rows = top + tl::expand_dims<1>(tl::arange<BLOCK_M>());
    const auto across = step * BLOCK_K + tl::expand_dims<0>(tl::arange<BLOCK_K>());
    const auto of_a = tl::deferred_load(a + (rows * k + across), (rows < m) & (across < k));
    if constexpr (B_ALONG_K) {
      const auto lines = left + tl::expand_dims<1>(tl::arange<BLOCK_N>());
      return tl::Tuple{of_a, tl::trans(tl::deferred_load(b + (lines * k + across), (lines < n) & (across < k)))};
    } else {
      const auto down = step * BLOCK_K + tl::expand_dims<1>(tl::arange<BLOCK_K>());
      const auto columns = left + tl::expand_dims<0>(tl::arange<BLOCK_N>());
      return tl::Tuple{of_a, tl::deferred_load(b + (down * n + columns), (down < k) & (columns < n))};
    }
  };
  const auto multiply = [&](const auto& x, const auto& y) { acc = tl::dot<kTf32>(x, y, acc); };
  const auto store = [&](int64_t tile) {
    const auto [top, left] = corner_of(tile);
    const auto rows = top + tl::expand_dims<1>(tl::arange<BLOCK_M>());
    const auto columns = left + tl::expand_dims<0>(tl::arange<BLOCK_N>());
    tl::store(out + (rows * n + columns), tl::cast<U>(acc), (rows < m) & (columns < n));
    acc = tl::dot_accumulator<T, BLOCK_M, BLOCK_N, kTf32>();
  };
  tl::pipeline<NUM_STAGES>(tl::cdiv(tiles_m * tiles_n - begin, programs), tl::cdiv(k, BLOCK_K), loads, multiply, store);
}
