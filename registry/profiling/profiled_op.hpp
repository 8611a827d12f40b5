#pragma once

#include <string>

#include "core/device.hpp"
#include "core/dtype.hpp"

namespace kiln {

struct Plan;

/// What a report and a trace say of a plan's calls.
struct ProfiledOp {
  std::string op, dtypes, shapes, config, variant;  ///< see ProfileRow
  Device device;
  DType dtype = DType::f32;  ///< of the first input, of the first output where there is none
};
ProfiledOp describe_plan(const Plan& plan);

}  // namespace kiln
