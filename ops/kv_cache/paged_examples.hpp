#pragma once

#include <random>
#include <vector>

#include "ops/op_spec.hpp"

namespace kiln::kv_cache {

std::vector<Example> paged_gather_examples();
std::vector<Example> append_examples();
std::vector<Example> append_layers_examples();
std::vector<Example> swap_examples();

// Random legal calls. Their indices are made by the fill functions: legal where the call asks for a check, else some of
// them skip and some are outside.
Example random_paged_gather(std::mt19937_64& random);
Example random_append(std::mt19937_64& random);
Example random_append_layers(std::mt19937_64& random);
Example random_swap(std::mt19937_64& random);

void fill_paged_gather(const OpCall& call, std::mt19937_64& random);
void fill_append(const OpCall& call, std::mt19937_64& random);
/// All slots skip: the tables hold no addresses of memory.
void fill_append_layers(const OpCall& call, std::mt19937_64& random);
void fill_swap(const OpCall& call, std::mt19937_64& random);

}  // namespace kiln::kv_cache
