#include "registry/profiling/profile_records.hpp"

#include <algorithm>

namespace kiln {

double CallRecord::host_us() const noexcept {
  ProfileDuration host = end - start - cold - own;
  if (!stream.device.is_cuda()) host -= launch_end - launch_start;
  return std::max(0.0, to_us(host));
}

std::string region_path(const std::vector<RegionNode>& nodes, std::uint32_t region) {
  if (region == 0) return {};
  const RegionNode& node = nodes[region];
  return node.parent == 0 ? node.name : region_path(nodes, node.parent) + '/' + node.name;
}

}  // namespace kiln
