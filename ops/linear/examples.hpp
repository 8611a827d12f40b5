#pragma once

#include <random>
#include <vector>

#include "ops/op_spec.hpp"

namespace kiln::linear {

std::vector<Example> linear_examples(bool is_relu);
Example random_linear_example(bool is_relu, std::mt19937_64& random);

}  // namespace kiln::linear
