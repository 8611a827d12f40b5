#include <kiln/tl.hpp>

/// out = x @ w.T of weights of 4 bits: x [m, k], out [m, n]. Groups of 128 weights along k share a scale and a zero:
/// w = (q - zero) * scale, both [k / 128, n]. `packed` [n, k / 2] has 64 bytes for a group: the low halves are its
/// first 64 weights, the high halves the others. All contiguous; k is a multiple of 128. A program makes BLOCK_N
/// columns of out for BLOCK_M rows of x, as rows of w @ x.T: the larger extent comes first in a product.
template <typename T, int BLOCK_M, int BLOCK_N>
KILN_KERNEL void int4_matmul(const T* x, const uint8_t* packed, const T* scale, const T* zero, T* out, int64_t m,
                             int64_t n, int64_t k) {
  const int64_t left = tl::program_id(0) * BLOCK_N;
  const auto outs = left + tl::expand_dims<1>(tl::arange<BLOCK_N>());
  const auto tokens = tl::program_id(1) * BLOCK_M + tl::expand_dims<0>(tl::arange<BLOCK_M>());
  const auto bytes = tl::expand_dims<0>(tl::arange<64>());
  const auto places = tl::expand_dims<1>(tl::arange<64>());
  auto acc = tl::dot_accumulator<T, BLOCK_N, BLOCK_M>();
  for (int64_t group = 0; group < k / 128; ++group) {
    const auto both = tl::load(packed + (outs * (k / 2) + (group * 64 + bytes)), outs < n);
    const auto factor = tl::cast<float>(tl::load(scale + (group * n + outs), outs < n));
    const auto middle = tl::cast<float>(tl::load(zero + (group * n + outs), outs < n));
    const auto low = tl::cast<T>((tl::cast<float>(both & 15) - middle) * factor);
    const auto high = tl::cast<T>((tl::cast<float>(both >> 4) - middle) * factor);
    const auto of_x = x + (tokens * k + (group * 128 + places));
    acc = tl::dot(low, tl::load(of_x, tokens < m), acc);
    acc = tl::dot(high, tl::load(of_x + 64, tokens < m), acc);
  }
  tl::store(out + (tokens * n + outs), tl::cast<T>(acc), (tokens < m) & (outs < n));
}
