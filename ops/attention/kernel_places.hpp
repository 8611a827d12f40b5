#pragma once

#include <kiln/tl.hpp>

#include "ops/attention/kernel_pages.hpp"
#include "ops/kv_cache/iteration_paged.hpp"

// Where keys and values lie from which a block of queries takes steps. Distances between rows are parameters of the
// kernel of their own: tiles whose distance is one are fetched by the copy engine.

namespace kiln::ops {

/// One after the other.
struct RowsInOrder {
  static constexpr bool kBeginsAtSteps = false;
  long long k_row, v_row;

  /// The addresses of BLOCK_N keys from `first` on, along columns, and of values, along rows; `dims` are those of a
  /// head.
  template <int BLOCK_N, typename K, typename Dims>
  KILN_DEVICE auto keys(K* k, tl::int64_t first, tl::int64_t, const Dims& dims) const {
    return tl::trans(k + ((first + tl::expand_dims<1>(tl::arange<BLOCK_N>())) * k_row + dims));
  }
  template <int BLOCK_N, typename V, typename Dims>
  KILN_DEVICE auto values(V* v, tl::int64_t first, tl::int64_t, const Dims& dims) const {
    return v + ((first + tl::expand_dims<1>(tl::arange<BLOCK_N>())) * v_row + dims);
  }
};

/// In pages of PAGE tokens, of which `entries` is a request's table. Steps begin at multiples of BLOCK_N, so that none
/// is part of two pages where a page is whole steps. Entries from `end` on are not looked at.
template <int PAGE, typename TableT>
struct RowsInPages {
  static constexpr bool kBeginsAtSteps = true;
  const TableT* entries;
  long long entry_stride;
  const PagedCache &k_cache, &v_cache;
  long long k_place, v_place;

  template <int BLOCK_N, typename K, typename Dims>
  KILN_DEVICE auto keys(K* k, tl::int64_t first, tl::int64_t end, const Dims& dims) const {
    return k + (token_places<PAGE, BLOCK_N, 0>(entries, entry_stride, k_cache, k_place, first, end) + tl::trans(dims));
  }
  template <int BLOCK_N, typename V, typename Dims>
  KILN_DEVICE auto values(V* v, tl::int64_t first, tl::int64_t end, const Dims& dims) const {
    return v + (token_places<PAGE, BLOCK_N, 1>(entries, entry_stride, v_cache, v_place, first, end) + dims);
  }
};

}  // namespace kiln::ops
