#pragma once

#include <random>
#include <span>
#include <vector>

#include "ops/kv_cache/rows_call.hpp"

namespace kiln::kv_cache {

// Of sparse_kv_gather and kv_scatter.

std::vector<Example> rows_examples();
Example random_rows(std::mt19937_64& random, std::span<const DType> dtypes);

/// Some pairs to skip, counts beyond their bounds, and numbers that mean nothing behind the counts.
void spoil_rows(const RowsCall& rows, const OpCall& call, std::mt19937_64& random);

/// Pairs behind their request's count, or that name a row which does not exist.
SkippedWork skipped_by_rows(const RowsCall& rows, const OpCall& call);

}  // namespace kiln::kv_cache
