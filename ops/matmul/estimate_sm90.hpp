#pragma once

#include <cstdint>
#include <vector>

#include "ops/matmul/call.hpp"
#include "ops/matmul/tiling_sm90.hpp"

namespace kiln::matmul {

/// What the estimates of one call depend on beside it.
struct Sm90Conditions {
  std::int64_t out_bytes;  ///< of an element
  Activation activation;
  Sm90Processors processors;
  bool may_split;  ///< see sm90_division
};

struct Sm90Estimate {
  Sm90Choice choice;
  double us;  ///< on an H200, copies of operands included
};

/// Choices worth considering for a call, the fastest first.
std::vector<Sm90Estimate> sm90_ranking(const Sm90Call& call, const Sm90Conditions& conditions);

/// Whether b may be a weight, which an engine multiplies by another number of rows at each step.
bool is_of_a_weight(const Sm90Call& call);

/// The fastest of them, where b may be a weight of those that a few kernels make for up to 8192 rows: kernels do not
/// depend on extents, and other calls of the weight choose among the same ones.
Sm90Estimate sm90_default(const Sm90Call& call, const Sm90Conditions& conditions);

}  // namespace kiln::matmul
