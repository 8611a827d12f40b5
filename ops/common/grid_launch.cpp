#include "ops/common/grid_launch.hpp"

namespace kiln::common {

KernelLaunch grid_launch(std::string_view op, std::int64_t programs, const Config& config, const Target& target) {
  check_grid(op, programs, target);
  KernelLaunch launch;
  launch.geometry.grid = {programs, 1, 1};
  if (const std::int64_t* num_warps = config.find("num_warps"))
    launch.geometry.num_warps = static_cast<std::int32_t>(*num_warps);
  return launch;
}

}  // namespace kiln::common
