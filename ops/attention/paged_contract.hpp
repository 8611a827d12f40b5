#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "ops/op_spec.hpp"

namespace kiln::attention {

// What the ops over pages take alike. Each check throws UsageError(value), naming `op`.

/// Tokens and rows are counted in 32 bits; so many keys before or behind a query are as good as all.
inline constexpr std::int64_t kMostCounted = std::int64_t{1} << 29;

AttributeSpec paged_causal_spec();
AttributeSpec num_splits_spec();

/// block_table or seq_lens, of which an entry is one of 0 to last(call).
InputSpec paged_index_input(std::string name, std::string doc, std::function<std::int64_t(const OpCall&)> last);

/// A number of requests or pages that changes from step to step: exact for few, then by powers of two.
ShapeKeyRule::Part varying_extent(int input, int axis);

/// Attribute 'causal': whether queries see no keys behind their own place.
bool is_causal_over_pages(std::string_view op, const Attributes& attributes);
/// Attribute 'num_splits'; 0: chosen.
std::int64_t num_splits_of(std::string_view op, const Attributes& attributes);

/// What a table and lengths are held against.
struct TableShape {
  std::int64_t batch, num_blocks, page;
  std::int64_t rows;  ///< of a program's tile, in all
  std::string_view query, cache;
};
/// Tokens that a request's row of the table has room for.
std::int64_t most_tokens_of(std::string_view op, const TensorView& table, const TensorView& lengths,
                            const TableShape& shape);

/// Pages of all requests one after the other, FlashInfer's kv_indices, kv_last_page_len and kv_indptr.
struct PageList {
  const TensorView &pages, &last_lengths, &starts;
  std::string_view starts_name;
};
/// Tokens that all of these pages have room for.
std::int64_t most_tokens_of_list(std::string_view op, const PageList& list, const TableShape& shape);

/// Keys of a CPU's step, `most` at most: a block that is part of a page is read where it lies.
std::int64_t cpu_page_keys(std::int64_t page, std::int64_t most_tokens, std::int64_t most);

}  // namespace kiln::attention
