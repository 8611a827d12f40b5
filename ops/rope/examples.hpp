#pragma once

#include <random>
#include <vector>

#include "ops/op_spec.hpp"

namespace kiln::rope {

std::vector<Example> rope_examples();
Example random_rope_example(std::mt19937_64& random);

/// Now and then a position before the first or behind the last.
void spoil_positions(const OpCall& call, std::mt19937_64& random);

}  // namespace kiln::rope
