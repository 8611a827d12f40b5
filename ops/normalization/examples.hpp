#pragma once

#include <random>
#include <vector>

#include "ops/op_spec.hpp"

namespace kiln::normalization {

std::vector<Example> softmax_examples();
Example random_softmax_example(std::mt19937_64& random);

std::vector<Example> norm_examples(bool is_layer);
Example random_norm_example(bool is_layer, std::mt19937_64& random);

}  // namespace kiln::normalization
