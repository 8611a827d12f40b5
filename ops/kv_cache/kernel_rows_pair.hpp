#pragma once

#include "compiler/tl/debug.hpp"
#include "ops/kv_cache/iteration_rows.hpp"

namespace kiln::ops {

/// One row to copy; src is negative where there is none.
template <typename Row>
struct RowPair {
  Row src, dst;
};

/// How many of a request's pairs are real. Without counts, all.
template <typename Count>
KILN_DEVICE tl::int64_t real_pairs(const Count* counts, tl::int64_t request, const RowsIteration& it) {
  return counts == nullptr ? it.topk : static_cast<tl::int64_t>(counts[request * it.count_stride]);
}

/// The pair at `place` of `request`. What lies behind the real pairs is not looked at. Rows that do not exist count as
/// none: a check costs nothing beside a row, and a write somewhere in the device's memory costs the process.
/// Row is a type that has all rows.
template <typename Row, typename Index, typename Count>
KILN_DEVICE RowPair<Row> listed_pair(const Index* indices, const Count* counts, tl::int64_t request, tl::int64_t place,
                                     const RowsIteration& it) {
  const RowPair<Row> none{-1, -1};
  if (place >= real_pairs(counts, request, it)) return none;
  const Index* const entry = indices + (request * it.index_strides[0] + place * it.index_strides[1]);
  const Index src = entry[0], dst = entry[it.index_strides[2]];
  if (src < 0 || dst < 0) return none;
  const bool exists = src < it.src_rows && dst < it.dst_rows;
  tl::device_assert(exists, "the rows are within src and dst");
  return exists ? RowPair<Row>{static_cast<Row>(src), static_cast<Row>(dst)} : none;
}

}  // namespace kiln::ops
