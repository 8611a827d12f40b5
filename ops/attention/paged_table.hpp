#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <vector>

#include "ops/kv_cache/paged_call.hpp"
#include "ops/op_spec.hpp"

namespace kiln::attention {

/// A call's block table and lengths as the host reads them: references, and what is said of calls.
struct PagedTable {
  TensorView table, lengths;
  std::int64_t batch, page, num_blocks, most_tokens;
  /// Where requests' pages begin in a table that lists those of all; lengths are then those of last pages.
  std::optional<TensorView> starts = std::nullopt;

  /// Entries that a request has room for: the first one's offset in the table, and how many there are.
  struct Entries {
    std::int64_t first, count, stride;
  };
  Entries entries(std::int64_t request) const;
  /// A request's length, which is no more than the table has room for.
  std::int64_t length(std::int64_t request) const;
  /// The blocks that its length uses; of an entry that is none, the nearest.
  std::vector<std::int64_t> blocks(std::int64_t request) const;
};

/// A request's tokens in a cache, side by side: [1, length, H, D].
struct GatheredTokens {
  std::vector<std::byte> bytes;
  TensorView view;

  GatheredTokens(const TensorView& cache, kv_cache::PageLayout layout, const PagedTable& table, std::int64_t request);
};

/// Of dimension 0 the index `request` alone.
TensorView request_of(const TensorView& view, std::int64_t request);

/// Lengths and entries out of range, where the call allows them, and garbage in entries that no length uses.
void spoil_table(const PagedTable& table, bool checks_bounds, std::mt19937_64& random);
/// Tokens that the table has room for and lengths or entries leave out.
SkippedWork skipped_tokens(const PagedTable& table);

}  // namespace kiln::attention
