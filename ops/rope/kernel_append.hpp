#pragma once

#include <kiln/tl.hpp>

#include "ops/common/kernel_place.hpp"
#include "ops/rope/iteration_append.hpp"
#include "ops/rope/kernel_form.hpp"
#include "ops/rope/kernel_pairs.hpp"
#include "ops/rope/kernel_rotation.hpp"

namespace kiln::ops {

/// Numbers as those of a cache of K: themselves, or of 8 bits divided by `scales` and no larger than there are.
template <typename K, typename X, typename Scales>
KILN_DEVICE auto numbers_of_cache(const X& x, const Scales& scales) {
  if constexpr (sizeof(K) > 1) {
    return tl::cast<K>(x);
  } else {
    constexpr float kMost = tl::is_same<K, tl::float8e4m3> ? kLargestE4m3 : kLargestE5m2;
    return tl::cast<K>(tl::minimum(tl::maximum(tl::cast<float>(x) / scales, -kMost), kMost));
  }
}

/// q turned where it lies, keys turned on their way to their slot of the cache, and values copied there. A tile's rows
/// are ROWS heads of one token, which share its cosines and sines and its slot; a token whose slot is none of the
/// cache's has its q turned and nothing else.
template <typename T, typename K, typename C, typename I, typename S, RopeForm FORM, int ROWS>
KILN_KERNEL void rope_append_kernel(T* q, const T* key, const T* value, K* key_cache, K* value_cache, const S* slots,
                                    const C* cos, const C* sin, const I* positions, const float* k_scales,
                                    const float* v_scales, RopeAppendIteration it) {
  using Pairs = RopePairs<FORM>;
  constexpr int kPadded = FORM.padded_pairs();
  ProgramNumber rest = static_cast<ProgramNumber>(tl::program_id(0));
  const tl::int64_t query_blocks = (it.query_heads + ROWS - 1) / ROWS, blocks = (it.heads + ROWS - 1) / ROWS;
  const tl::int64_t first_block = take_coordinate(rest, it.parts) * it.program_blocks;
  tl::int64_t end_block = query_blocks + 2 * blocks;
  if (first_block + it.program_blocks < end_block) end_block = first_block + it.program_blocks;
  const tl::int64_t first_token = static_cast<tl::int64_t>(rest) * it.program_tokens;
  tl::int64_t end_token = it.tokens;
  if (first_token + it.program_tokens < end_token) end_token = first_token + it.program_tokens;

  const auto turns = turns_of_pairs<FORM, ROWS>(it.turns);
  KILN_NO_UNROLL for (tl::int64_t token = first_token; token < end_token; ++token) {
    tl::int64_t position = token;
    if constexpr (FORM.has_positions)
      position = static_cast<tl::int64_t>(tl::load(positions + token * it.position_stride));
    const auto [c, s] = rotation_at<FORM, ROWS>(cos, sin, position, turns, it);
    const auto slot = static_cast<tl::int64_t>(tl::load(slots + token * it.slot_stride));
    const bool is_kept = slot >= 0 && slot < it.caches[0].num_blocks * it.caches[0].page;
    KILN_NO_UNROLL for (tl::int64_t block = first_block; block < end_block; ++block) {
      // One piece of code turns q and keys: two would keep more in registers than there are.
      const bool is_query = block < query_blocks;
      if (!is_query && !is_kept) break;
      const int kind = block - query_blocks < blocks ? 0 : 1;
      const PagedCache& cache = it.caches[kind];
      const RopeRowStrides& strides = is_query ? it.query : it.fresh[kind];
      const tl::int64_t first_head = (is_query ? block : block - query_blocks - kind * blocks) * ROWS;
      const auto rows = first_head + tl::expand_dims<1>(tl::arange<ROWS>());
      const tl::int64_t heads = is_query ? it.query_heads : it.heads;
      const T* const from = (is_query ? q : kind == 0 ? key : value) + token * strides.token;
      K* place = nullptr;
      if (!is_query)
        place = (kind == 0 ? key_cache : value_cache) +
                (slot / cache.page * cache.block_stride + slot % cache.page * cache.place_stride);
      T* const own = q + token * it.query.token;
      auto scales = tl::full<float, ROWS, 1>(1.f);
      if constexpr (!tl::is_same<K, T>)
        if (const float* const heads_scales = kind == 0 ? k_scales : v_scales; !is_query && heads_scales != nullptr)
          scales = scales * tl::load(heads_scales + rows * it.scale_strides[kind], rows < heads, 1.f);
      if (is_query || kind == 0) {
        const auto pairs = Pairs::read(from, rows, strides.head, strides.element, heads);
        const auto a = tl::cast<float>(pairs.first), b = tl::cast<float>(pairs.second);
        const auto x = tl::fma(a, c, -(b * s)), y = tl::fma(b, c, a * s);
        if constexpr (tl::is_same<K, T>) {
          Pairs::write(is_query ? own : place, rows, is_query ? it.query.head : cache.head_stride,
                       is_query ? it.query.element : cache.element_stride, heads, tl::cast<T>(x), tl::cast<T>(y));
        } else if (is_query) {
          Pairs::write(own, rows, it.query.head, it.query.element, heads, tl::cast<T>(x), tl::cast<T>(y));
        } else {
          Pairs::write(place, rows, cache.head_stride, cache.element_stride, heads, numbers_of_cache<K>(x, scales),
                       numbers_of_cache<K>(y, scales));
        }
        if (is_query || !FORM.copies_rest) continue;
      }
      copy_columns<FORM, kPadded>(place, cache.head_stride, cache.element_stride, from, strides.head, strides.element,
                                  rows, heads, kind == 0 ? FORM.rotary_dim : 0, it.head_dim,
                                  [&](const auto& numbers) { return numbers_of_cache<K>(numbers, scales); });
    }
  }
}

}  // namespace kiln::ops
