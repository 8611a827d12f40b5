#include <kiln/tl.hpp>

/// out = x @ w.T of weights of 4 bits: x [m, k], out [m, n]. Groups of 128 weights along k share a scale and a zero:
/// w = (q - zero) * scale, both [k / 128, n]. `packed` [n, k / 2] has 64 bytes for a group: the low halves are its
/// first 64 weights, the high halves the others. All contiguous; k is a multiple of 128. A program makes BLOCK_N
/// columns of out for BLOCK_M rows of x, as rows of w @ x.T: the larger extent comes first in a product. A step takes
/// two groups: while the first one's products go on, the second one's weights are unpacked.
template <typename T, int BLOCK_M, int BLOCK_N, int NUM_STAGES, int PROGRAMS>
KILN_KERNEL_OF(PROGRAMS)
void int4_matmul(const T* x, const uint8_t* packed, const T* scale, const T* zero, T* out, int64_t m, int64_t n,
                 int64_t k) {
  const auto outs = tl::program_id(0) * BLOCK_N + tl::expand_dims<1>(tl::arange<BLOCK_N>());
  const auto tokens = tl::program_id(1) * BLOCK_M + tl::expand_dims<0>(tl::arange<BLOCK_M>());
  const auto loads_of = [&](int64_t group) {
    const auto bytes = group * 64 + tl::expand_dims<0>(tl::arange<64>());
    const auto places = group * 128 + tl::expand_dims<1>(tl::arange<128>());
    const auto are_there = outs < (group < k / 128 ? n : 0);
    return tl::Tuple{tl::deferred_load(packed + (outs * (k / 2) + bytes), are_there),
                     tl::deferred_load(x + (tokens * k + places), (tokens < m) & (places < k)),
                     tl::deferred_load(scale + (group * n + outs), are_there),
                     tl::deferred_load(zero + (group * n + outs), are_there)};
  };
  const auto product = [](const auto& both, const auto& x_tile, const auto& middle) {
    const auto halves = tl::operand_values(both);
    return tl::dot(tl::cast<T>(tl::cat<1>(halves & 15, halves >> 4)) - tl::operand_values(middle), x_tile);
  };
  const auto factors = [](const auto& tile) { return tl::cast<float>(tl::operand_values(tile)); };
  auto acc = tl::cast<float>(tl::dot_accumulator<T, BLOCK_N, BLOCK_M>());
  tl::pipeline<NUM_STAGES>(
      tl::cdiv(k, 256), [&](int64_t step) { return tl::joined(loads_of(2 * step), loads_of(2 * step + 1)); },
      [&](const auto& a, const auto& x_a, const auto& scale_a, const auto& zero_a, const auto& b, const auto& x_b,
          const auto& scale_b, const auto& zero_b) {
        const auto first = product(a, x_a, zero_a), second = product(b, x_b, zero_b);
        acc = acc + first * factors(scale_a) + second * factors(scale_b);
      });
  tl::store(out + (tokens * n + outs), tl::cast<T>(acc), (tokens < m) & (outs < n));
}
