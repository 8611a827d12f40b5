#pragma once

#include <random>
#include <span>
#include <vector>

#include "ops/op_spec.hpp"

namespace kiln::kv_cache {

// Of sparse_kv_gather and kv_scatter.

std::vector<Example> rows_examples();
Example random_rows(std::mt19937_64& random, std::span<const DType> dtypes);

/// Destination rows that are distinct, and source rows too where there is a slot map; some pairs to skip, and numbers
/// that mean nothing behind the counts.
void fill_rows(const OpCall& call, std::mt19937_64& random);

}  // namespace kiln::kv_cache
