#include <kiln/tl.hpp>

/// Attention of one query for each request and head over keys and values in pages of 16: q and out [requests, heads *
/// GROUP, D], caches [pages, 16, heads, D], table [requests, pages of a request], lengths [requests] of at least 1; all
/// contiguous. A program has a request's GROUP queries that share a head of the caches. Places of a page behind a
/// request's end may hold anything.
template <typename T, int D, int GROUP, int NUM_STAGES>
KILN_KERNEL void paged_attention(const T* q, const T* keys, const T* values, const int32_t* table,
                                 const int32_t* lengths, T* out, int64_t heads, int64_t most_pages, float scale) {
  const int64_t head = tl::program_id(0), request = tl::program_id(1), length = tl::load(lengths + request);
  const auto rows = tl::expand_dims<1>(tl::arange<16>());
  const auto dims = tl::expand_dims<0>(tl::arange<D>());
  const auto of_queries = (request * heads + head) * GROUP * D + (rows * D + dims);
  const auto queries = tl::pipeline_operand([&] { return tl::deferred_load(q + of_queries, rows < GROUP); });
  auto acc = tl::dot_accumulator<T, 16, D>();
  auto largest = tl::max<1>(acc) - INFINITY;
  auto total = tl::sum<1>(acc);
  const float log2_scale = scale * 1.44269504f;

  // Two pages in each step, of which the last one's second may be behind the end: its keys count for nothing.
  const int64_t last_page = (length - 1) / 16;
  int64_t begin = 0;
  tl::pipeline<NUM_STAGES>(
      last_page / 2 + 1,
      [&](int64_t step) {
        const auto places = [&](int64_t number) {
          const int64_t page = tl::load(table + request * most_pages + (number < last_page ? number : last_page));
          return (page * 16 + rows) * (heads * D) + (head * D + dims);
        };
        const auto first = places(2 * step), second = places(2 * step + 1);
        const auto in_first = step * 32 + rows < length, in_second = step * 32 + 16 + rows < length;
        return tl::Tuple{tl::deferred_load(tl::trans(keys + first), tl::trans(in_first)),
                         tl::deferred_load(values + first, in_first),
                         tl::deferred_load(tl::trans(keys + second), tl::trans(in_second)),
                         tl::deferred_load(values + second, in_second)};
      },
      [&](const auto& first_keys, const auto& first_values, const auto& second_keys, const auto& second_values) {
        auto x = tl::dot(queries, first_keys), y = tl::dot(queries, second_keys);
        if (begin + 32 > length) {
          const auto places = begin + tl::expand_dims<0>(tl::arange<16>());
          x = tl::where(places < length, x, -INFINITY);
          y = tl::where(places + 16 < length, y, -INFINITY);
        }
        const auto now_largest = tl::maximum(largest, tl::max<1>(tl::maximum(x, y)) * log2_scale);
        const auto p = tl::exp2(x * log2_scale - tl::expand_dims<1>(now_largest));
        const auto r = tl::exp2(y * log2_scale - tl::expand_dims<1>(now_largest));
        const auto fade = tl::exp2(largest - now_largest);
        total = total * fade + tl::sum<1>(p + r);
        acc = tl::dot(tl::cast<T>(p), first_values, acc * tl::expand_dims<1>(fade));
        acc = tl::dot(tl::cast<T>(r), second_values, acc);
        largest = now_largest;
        begin += 32;
      });
  tl::store(out + of_queries, tl::cast<T>(acc / tl::expand_dims<1>(total)), rows < GROUP);
}
