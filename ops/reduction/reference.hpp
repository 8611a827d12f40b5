#pragma once

#include "ops/op_spec.hpp"
#include "ops/reduction/reduction.hpp"

namespace kiln::reduction {

/// Runs the op on CPU memory, output by output, in double or 64-bit integers.
void run_reference(const OpRow& row, const OpCall& call);

/// How far a kernel's result may be from the reference's, over inputs of input_ranges().
Tolerance tolerance(const OpRow& row, DType out);
/// What test inputs are drawn from: sums of numbers of both signs would cancel, and be compared with what is left.
std::vector<InputRange> input_ranges(const OpRow& row);

std::vector<Example> make_examples(const OpRow& row);
Example random_example(const OpRow& row, const std::vector<DType>& dtypes, std::mt19937_64& random);

}  // namespace kiln::reduction
