#include "registry/profile_records.hpp"

#include <algorithm>

namespace kiln {

double CallRecord::host_us() const noexcept {
  ProfileDuration host = end - start - cold - own;
  if (!stream.device.is_cuda()) host -= launch_end - launch_start;
  return std::max(0.0, to_us(host));
}

std::uint32_t ThreadRecords::region(std::string_view name, std::uint32_t outer) {
  // Programs have a handful of regions; the latest is the likeliest.
  for (std::size_t i = region_nodes.size(); i-- > 1;)
    if (region_nodes[i].parent == outer && region_nodes[i].name == name) return static_cast<std::uint32_t>(i);
  region_nodes.push_back({std::string(name), outer});
  return static_cast<std::uint32_t>(region_nodes.size() - 1);
}

std::string region_path(const std::vector<RegionNode>& nodes, std::uint32_t region) {
  if (region == 0) return {};
  const RegionNode& node = nodes[region];
  return node.parent == 0 ? node.name : region_path(nodes, node.parent) + '/' + node.name;
}

}  // namespace kiln
