#pragma once

#include <random>
#include <vector>

#include "ops/op_spec.hpp"

namespace kiln::kv_cache {

std::vector<Example> paged_gather_examples();
std::vector<Example> append_examples();
std::vector<Example> append_layers_examples();
std::vector<Example> swap_examples();

// Random legal calls.
Example random_paged_gather(std::mt19937_64& random);
Example random_append(std::mt19937_64& random);
Example random_append_layers(std::mt19937_64& random);
Example random_swap(std::mt19937_64& random);

// What the ops skip, in places: negative indices, and too large ones where the call asks for no check. kv_gather_paged
// gets lengths beyond its room too, and garbage behind its sequences.
void spoil_paged_gather(const OpCall& call, std::mt19937_64& random);
/// Of kv_append and kv_append_layers.
void spoil_slots(const OpCall& call, std::mt19937_64& random);
void spoil_swap(const OpCall& call, std::mt19937_64& random);

/// Tokens behind their sequence, or in no block.
SkippedWork skipped_by_paged_gather(const OpCall& call);

}  // namespace kiln::kv_cache
