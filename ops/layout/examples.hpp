#pragma once

#include <random>
#include <string_view>
#include <vector>

#include "ops/op_spec.hpp"

namespace kiln::layout {

std::vector<Example> examples_of(std::string_view op);
/// A random legal call of `op`: sizes around those of tiles, ranks 0 to 5, any attributes.
Example random_example_of(std::string_view op, std::mt19937_64& random);

}  // namespace kiln::layout
