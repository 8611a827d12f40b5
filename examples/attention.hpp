#include <kiln/tl.hpp>

/// softmax(scale * q @ k^T) @ v of each head: q, k, v and out [heads, length, D], contiguous.
/// Program ids: a head of a group of heads, a block of its queries, the group.
/// A program has BLOCK_M queries and goes through the keys by BLOCK_N; CAUSAL: a query sees keys up to its own place.
/// scale > 0. Of PROGRAMS on one multiprocessor some multiply while others compute probabilities. A row's largest score
/// is kept while scores lie less than 8 (a factor of 2^8) above it, so that sums seldom fade.
/// The running maximum and total are those of Milakov and Gimelshein, "Online normalizer calculation for softmax"
/// (2018), put to this use by Dao et al., "FlashAttention" (2022).
template <typename T, int D, int BLOCK_M, int BLOCK_N, int NUM_STAGES, int PROGRAMS, bool CAUSAL>
KILN_KERNEL_OF(PROGRAMS)
void attention(const T* q, const T* k, const T* v, T* out, int64_t length, float scale) {
  // The last queries, which see most, first: what is begun last ends all, and should be short.
  const int64_t head = (tl::program_id(2) * tl::num_programs(0) + tl::program_id(0)) * length * D;
  const int64_t first = (tl::num_programs(1) - 1 - tl::program_id(1)) * BLOCK_M;
  const auto rows = first + tl::expand_dims<1>(tl::arange<BLOCK_M>());
  const auto dims = tl::expand_dims<0>(tl::arange<D>());
  const auto keys = tl::expand_dims<0>(tl::arange<BLOCK_N>());
  const auto queries =
      tl::pipeline_operand([&] { return tl::deferred_load(q + head + (rows * D + dims), rows < length); });
  auto acc = tl::dot_accumulator<T, BLOCK_M, D>();
  auto largest = tl::max<1>(acc) - INFINITY;  // -inf and 0, in the layout of a product's rows
  auto total = tl::sum<1>(acc);
  const float log2_scale = scale * 1.44269504f;

  const int64_t visible = CAUSAL && first + BLOCK_M < length ? first + BLOCK_M : length;
  const int whole_steps = int((CAUSAL ? first : length) / BLOCK_N);  // whose keys are seen by all queries
  int step = 0;
  tl::pipeline<NUM_STAGES>((visible + BLOCK_N - 1) / BLOCK_N,
                           [&](int64_t at) {
                             const auto here = at * BLOCK_N + tl::expand_dims<1>(tl::arange<BLOCK_N>());
                             const auto offsets = here * D + dims;
                             return tl::Tuple{
                                 tl::deferred_load(tl::trans(k + head + offsets), tl::trans(here < length)),
                                 tl::deferred_load(v + head + offsets, here < length)};
                           },
                           [&](const auto& k_tile, const auto& v_tile) {
                             auto x = tl::cast<float>(tl::dot(queries, k_tile));
                             if (step >= whole_steps) {
                               const auto here = int64_t{step} * BLOCK_N + keys;
                               if constexpr (CAUSAL)
                                 x = tl::where(here - rows <= 0, x, -INFINITY);
                               else
                                 x = tl::where(here < length, x, -INFINITY);
                             }
                             const auto row_largest = tl::max<1>(x) * log2_scale;
                             const auto now_largest = tl::where(row_largest - largest > 8.f, row_largest, largest);
                             const auto fade = tl::exp2(largest - now_largest);
                             const auto faded = acc * tl::expand_dims<1>(fade);
                             const auto p = tl::exp2(x * log2_scale - tl::expand_dims<1>(now_largest));
                             total = total * fade + tl::sum<1>(p);
                             acc = tl::dot(tl::cast<T>(p), v_tile, faded);
                             largest = now_largest;
                             ++step;
                           });
  tl::store(out + head + (rows * D + dims), tl::cast<T>(acc / tl::expand_dims<1>(total)), rows < length);
}
