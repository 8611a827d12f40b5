#include <kiln/tl.hpp>

/// out = x @ w.T of weights of 4 bits: x [m, k], out [m, n]. Groups of 128 weights along k share a scale and a zero:
/// w = (q - zero) * scale, both [k / 128, n]. `packed` [n, k / 2] has 64 bytes for a group: the low halves are its
/// first 64 weights, the high halves the others. All contiguous; k is a multiple of 128. A program makes BLOCK_N
/// columns of out for BLOCK_M rows of x, as rows of w @ x.T: the larger extent comes first in a product.
template <typename T, int BLOCK_M, int BLOCK_N, int NUM_STAGES>
KILN_KERNEL void int4_matmul(const T* x, const uint8_t* packed, const T* scale, const T* zero, T* out, int64_t m,
                             int64_t n, int64_t k) {
  const auto outs = tl::program_id(0) * BLOCK_N + tl::expand_dims<1>(tl::arange<BLOCK_N>());
  const auto tokens = tl::program_id(1) * BLOCK_M + tl::expand_dims<0>(tl::arange<BLOCK_M>());
  auto acc = tl::cast<float>(tl::dot_accumulator<T, BLOCK_N, BLOCK_M>());
  tl::pipeline<NUM_STAGES>(
      k / 128,
      [&](int64_t group) {
        const auto bytes = group * 64 + tl::expand_dims<0>(tl::arange<64>());
        const auto places = group * 128 + tl::expand_dims<1>(tl::arange<128>());
        return tl::Tuple{tl::deferred_load(packed + (outs * (k / 2) + bytes), outs < n),
                         tl::deferred_load(x + (tokens * k + places), tokens < m),
                         tl::deferred_load(scale + (group * n + outs), outs < n),
                         tl::deferred_load(zero + (group * n + outs), outs < n)};
      },
      [&](const auto& both, const auto& x_tile, const auto& factor, const auto& middle) {
        const auto halves = tl::operand_values(both);
        const auto weights = tl::cast<T>(tl::cat<1>(halves & 15, halves >> 4)) - tl::operand_values(middle);
        acc = acc + tl::dot(weights, x_tile) * tl::cast<float>(tl::operand_values(factor));
      });
  tl::store(out + (tokens * n + outs), tl::cast<T>(acc), (tokens < m) & (outs < n));
}
