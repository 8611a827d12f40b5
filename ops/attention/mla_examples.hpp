#pragma once

#include <random>
#include <vector>

#include "ops/op_spec.hpp"

namespace kiln::attention {

std::vector<Example> mla_examples();
Example random_mla_example(std::mt19937_64& random);
void spoil_mla(const OpCall& call, std::mt19937_64& random);
SkippedWork skipped_by_mla(const OpCall& call);

}  // namespace kiln::attention
