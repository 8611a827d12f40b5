#pragma once

#include <random>
#include <vector>

#include "ops/op_spec.hpp"

namespace kiln::rope {

std::vector<Example> append_examples();
Example random_append_example(std::mt19937_64& random);

/// Now and then a slot or a position that is none.
void spoil_append(const OpCall& call, std::mt19937_64& random);
/// Tokens that have no slot or no position.
SkippedWork skipped_by_append(const OpCall& call);

}  // namespace kiln::rope
