#pragma once

#include <string_view>

#include "ops/common/grid.hpp"
#include "ops/op_spec.hpp"

namespace kiln::common {

/// A launch of `programs` programs along axis 0, with the config's num_warps where it has them; kernel, arguments and
/// the rest are left open. UsageError(value) as check_grid.
KernelLaunch grid_launch(std::string_view op, std::int64_t programs, const Config& config, const Target& target);

}  // namespace kiln::common
