#pragma once

#include "ops/elementwise/op_table.hpp"

namespace kiln::elementwise {

/// Runs the op on CPU memory, element by element: inputs are cast to the compute dtype, floats are computed in double
/// and rounded once.
void run_reference(const OpRow& row, const OpCall& call);

/// How far a kernel's result may be from the reference's.
Tolerance tolerance(const OpRow& row, DType out);

/// Calls that tests and benchmarks make.
std::vector<Example> make_examples(const OpRow& row);

}  // namespace kiln::elementwise
