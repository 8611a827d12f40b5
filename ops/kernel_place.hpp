#pragma once

#include "compiler/tl/program.hpp"

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

}  // namespace kiln::ops
