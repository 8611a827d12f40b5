#pragma once

#include <kiln/tl.hpp>

#include "ops/attention/kernel_form.hpp"
#include "ops/kv_cache/iteration_paged.hpp"

// What kernels over pages have in common: a program takes BLOCK_M rows, which are the queries of all heads that share
// what the cache holds, a query's heads side by side (row r is query r / group of head r % group), and one of several
// parts of the keys that they see.

namespace kiln::ops {

/// The page that an entry of a block table names. One that is none is read as the nearest that there is, so that
/// nothing outside of the cache is.
template <typename Page>
KILN_DEVICE auto page_that_is_there(const Page& page, long long num_blocks) {
  return tl::minimum(tl::maximum(tl::cast<tl::int64_t>(page), 0), num_blocks - 1);
}

/// Where BLOCK_N tokens from `first` on lie in a cache, as offsets of rows along AXIS. A page that is whole blocks of
/// tokens is looked up once, else each token's is.
template <int PAGE, int BLOCK_N, int AXIS, typename TableT>
KILN_DEVICE auto token_places(const TableT* entries, long long entry_stride, const PagedCache& cache, long long place,
                              tl::int64_t first, tl::int64_t end) {
  const auto block = tl::expand_dims<AXIS>(tl::arange<BLOCK_N>());
  if constexpr (PAGE % BLOCK_N == 0) {
    tl::int64_t page = tl::load(entries + first / PAGE * entry_stride);
    if (page < 0) page = 0;
    if (page >= cache.num_blocks) page = cache.num_blocks - 1;
    return page * cache.block_stride + first % PAGE * place + block * place;
  } else {
    const auto tokens = first + block;
    const auto entry = tokens / tl::int64_t{PAGE};
    const auto page = page_that_is_there(tl::load(entries + entry * entry_stride, tokens < end), cache.num_blocks);
    return page * cache.block_stride + (tokens - entry * tl::int64_t{PAGE}) * place;
  }
}

/// A request's length, which is no more than its row of the table has room for. Tokens are counted in 32 bits, since a
/// GPU has few registers for what is needed all along.
template <typename LengthT>
KILN_DEVICE int length_of(const LengthT* length, long long most_tokens) {
  const tl::int64_t stated = tl::load(length);
  return static_cast<int>(stated < 0 ? tl::int64_t{0} : stated > most_tokens ? most_tokens : stated);
}

/// A request's pages in a list of all requests': its first, how many tokens it has.
struct ListedPages {
  tl::int64_t first;
  int length;
};

/// Of pages starts[request] to starts[request + 1], of which the last holds as many tokens as `last` says; none where
/// that is negative.
template <typename StartT, typename LengthT>
KILN_DEVICE ListedPages listed_pages(const StartT* starts, long long start_stride, long long all_pages,
                                     const LengthT* last, long long page) {
  const auto start_of = [&](int number) {
    const tl::int64_t start = tl::load(starts + number * start_stride);
    return start < 0 ? tl::int64_t{0} : start > all_pages ? tl::int64_t{all_pages} : start;
  };
  const tl::int64_t first = start_of(0), count = start_of(1) - first;
  if (count <= 0 || tl::load(last) < 0) return {first, 0};
  return {first, static_cast<int>((count - 1) * page) + length_of(last, page)};
}

/// Offsets of rows by number, from their request and first head.
template <bool ONE_QUERY, typename Numbers>
KILN_DEVICE auto row_offsets(const Numbers& numbers, int group, long long query_stride, long long head_stride) {
  if constexpr (ONE_QUERY) {
    return numbers * head_stride;
  } else {
    const auto query = numbers / tl::int64_t{group};
    return query * query_stride + (numbers - query * tl::int64_t{group}) * head_stride;
  }
}

/// What keys a program's rows see: `left` before and `right` behind their own place, where the form has these bounds.
struct RowsOfRequest {
  tl::int64_t first, count;  ///< the program's first row, and rows of all programs
  int queries, group, length, left, right;
};

/// A program's part of the keys, in steps of BLOCK_N, of which the first begins at a multiple of BLOCK_N.
struct StepsOfPart {
  int begin = 0, end = 0;  ///< the first step's first token; behind the last token that one of the rows sees
  int num_steps = 0;
  int own = 0;                       ///< the place of query 0
  int whole_from = 0, whole_to = 0;  ///< steps whose keys all rows see
};

template <AttentionForm FORM, int BLOCK_M, int BLOCK_N>
KILN_DEVICE StepsOfPart steps_of_part(const RowsOfRequest& rows, int part, int parts) {
  StepsOfPart steps;
  const int own = rows.length - rows.queries;
  const int past_rows = static_cast<int>(rows.first + BLOCK_M < rows.count ? rows.first + BLOCK_M : rows.count);
  const int first_own = own + static_cast<int>(rows.first) / rows.group, last_own = own + (past_rows - 1) / rows.group;
  int begin = 0, end = rows.length, all_from = 0, all_to = rows.length;
  if constexpr (FORM.has_low) {
    if (first_own > rows.left) begin = first_own - rows.left;
    all_from = last_own - rows.left;
  }
  if constexpr (FORM.has_high) {
    if (last_own + rows.right + 1 < end) end = last_own + rows.right + 1;
    if (first_own + rows.right + 1 < end) all_to = first_own + rows.right + 1;
  }
  if (all_to > end) all_to = end;
  begin = begin / BLOCK_N * BLOCK_N;
  const int all_steps = end > begin ? (end - begin + BLOCK_N - 1) / BLOCK_N : 0;
  const auto steps_before = [&](int some) { return static_cast<int>(tl::int64_t{all_steps} * some / parts); };
  const int step_before = steps_before(part);
  begin += step_before * BLOCK_N;
  steps.begin = begin;
  steps.end = end;
  steps.num_steps = steps_before(part + 1) - step_before;
  steps.own = own;
  steps.whole_from = all_from > begin ? (all_from - begin + BLOCK_N - 1) / BLOCK_N : 0;
  steps.whole_to = all_to > begin ? (all_to - begin) / BLOCK_N : 0;
  return steps;
}

}  // namespace kiln::ops
