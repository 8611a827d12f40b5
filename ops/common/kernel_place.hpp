#pragma once

#include "compiler/tl/program.hpp"
#include "ops/common/iteration.hpp"

namespace kiln::ops {

#if defined(KILN_TARGET_CUDA)
/// A GPU's grid has fewer than 2^31 programs, and a 64-bit division costs it four times a 32-bit one, at run time and
/// to compile.
using ProgramNumber = unsigned int;
#else
using ProgramNumber = unsigned long long;
#endif

/// Takes the fastest of the coordinates that `number` counts through, below `extent`, off it.
template <typename Number>
KILN_DEVICE tl::int64_t take_coordinate(Number& number, tl::int64_t extent) {
  const Number divisor = static_cast<Number>(extent), quotient = number / divisor;
  const tl::int64_t coordinate = static_cast<tl::int64_t>(number - quotient * divisor);
  number = quotient;
  return coordinate;
}

/// Where line `line` starts in one operand, 0 being the output.
template <int kOperand>
KILN_DEVICE tl::int64_t line_start(const LineIteration& iteration, tl::int64_t line) {
  ProgramNumber rest = static_cast<ProgramNumber>(line);
  tl::int64_t start = 0;
  KILN_NO_UNROLL for (int dim = 0; dim < iteration.num_dims; ++dim) start +=
      take_coordinate(rest, iteration.extents[dim]) * iteration.strides[kOperand][dim];
  return start;
}

}  // namespace kiln::ops
