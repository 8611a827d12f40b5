#pragma once

#include <random>
#include <vector>

#include "ops/op_spec.hpp"

namespace kiln::attention {

std::vector<Example> attention_examples();
Example random_attention_example(std::mt19937_64& random);

}  // namespace kiln::attention
