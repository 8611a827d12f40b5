#pragma once

#include <random>
#include <vector>

#include "ops/op_spec.hpp"

namespace kiln::matmul {

/// Extents of m, n and k around the sizes of blocks; k up to kMostTestedK.
std::int64_t random_extent(std::mt19937_64& random);
/// A dtype of operands, and one to round the result to, or None.
DType random_operand_dtype(std::mt19937_64& random);
/// Where operands are drawn from: fp8 ones near 0, since Hopper's tensor cores keep 13 bits of the fraction when they
/// add products of fp8, and a tolerance knows the result's dtype alone.
std::vector<InputRange> operand_ranges(DType operands);
AttributeValue random_out_dtype(std::mt19937_64& random, DType operands);

std::vector<Example> matmul_examples();
Example random_matmul_example(std::mt19937_64& random);
std::vector<Example> scaled_matmul_examples();
Example random_scaled_matmul_example(std::mt19937_64& random);

}  // namespace kiln::matmul
