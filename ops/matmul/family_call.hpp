#pragma once

#include <optional>

#include "ops/common/call_parser.hpp"
#include "ops/matmul/call.hpp"
#include "ops/matmul/call_sm90.hpp"

namespace kiln::matmul {

/// One call as the family's kernels see it.
struct FamilyCall {
  MatmulCall matmul;
  std::optional<Sm90Call> sm90;  ///< where the kernel for sm_90a can serve it
};
using MatmulParser = common::CallParser<FamilyCall>;

}  // namespace kiln::matmul
