#pragma once

#include <random>
#include <vector>

#include "ops/op_spec.hpp"
#include "ops/random/distribution.hpp"

namespace kiln::random {

std::vector<Example> make_examples(Kind kind);

/// A random legal call: sizes around those of blocks and vectors, seeds and offsets up to their ends, every dtype.
Example random_example(Kind kind, std::mt19937_64& random);

}  // namespace kiln::random
