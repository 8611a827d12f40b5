#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/attributes.hpp"
#include "ops/op_spec.hpp"

namespace kiln::scan {

/// One op of the family.
struct OpRow {
  std::string name;
  std::string doc;
  std::string functor;  ///< in kernel.hpp
  double neutral;
};
const std::vector<OpRow>& op_table();

/// What a call means.
struct ScanCall {
  int axis = 0;  ///< 0 for a tensor without dimensions
  DType out = DType::f32;
  DType accumulator = DType::f32;
};
/// UsageError for a `dim` that the input does not have, and for a `dtype` that is no dtype or bool.
ScanCall resolve(const OpRow& row, const TensorView& input, const Attributes& attributes);

/// Runs the op naively on CPU memory, in double or in 64-bit integers that wrap.
void run_reference(const OpRow& row, const OpCall& call);
/// Against that reference.
Tolerance tolerance(DType out);

std::vector<Example> make_examples();
Example random_example(const OpRow& row, std::mt19937_64& random);

}  // namespace kiln::scan
