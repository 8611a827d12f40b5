#pragma once

#include "ops/matmul/call.hpp"

namespace kiln::matmul {

/// The problem in double, or in int64 where the accumulator is i32, which wraps; on CPU memory.
void run_reference(const Problem& problem, const OpCall& call);

/// For inputs in [-1, 1] and k up to kMostTestedK: partial sums of k products then are about sqrt(k) / 3, and k
/// roundings of them add up to k * sqrt(k) / 3 units in the last place at the very worst, to about k / 20 as they fall.
Tolerance tolerance(DType out);
inline constexpr std::int64_t kMostTestedK = 512;

}  // namespace kiln::matmul
