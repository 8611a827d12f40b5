#pragma once

#include <random>
#include <span>
#include <vector>

#include "ops/op_spec.hpp"

namespace kiln::indexing {

std::vector<Example> index_select_examples();
std::vector<Example> gather_examples();
std::vector<Example> scatter_add_examples();

// Random legal calls.
Example random_index_select(std::mt19937_64& random, std::span<const DType> dtypes);
Example random_gather(std::mt19937_64& random, std::span<const DType> dtypes);
Example random_scatter_add(std::mt19937_64& random, std::span<const DType> dtypes);

/// Of some calls: indices to either side of the legal ones.
void spoil_index(const OpCall& call, std::mt19937_64& random);

}  // namespace kiln::indexing
