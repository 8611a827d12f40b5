#include "registry/profiling/device_region.hpp"

#include <algorithm>
#include <map>

namespace kiln {
namespace {

bool is_inside(const std::vector<RegionNode>& nodes, std::uint32_t region, std::uint32_t outer) {
  while (region != 0 && region != outer) region = nodes[region].parent;
  return region == outer;
}

}  // namespace

std::vector<DeviceRegion> device_regions(const ThreadRecords& thread) {
  std::vector<const CallRecord*> calls;
  for (const CallRecord& call : thread.calls)
    if (call.stream.device.is_cuda() && call.device_us >= 0) calls.push_back(&call);
  std::ranges::sort(calls, {}, &CallRecord::start);
  std::vector<DeviceRegion> found;
  for (const RegionRecord& region : thread.regions) {
    std::map<Device, DeviceRegion> by_device;
    const auto first = std::ranges::lower_bound(calls, region.start, {}, &CallRecord::start);
    for (auto call = first; call != calls.end() && (*call)->start < region.end; ++call) {
      // A graph's or another region's calls of the same time are those of an inner one, or of none.
      if (!is_inside(thread.region_nodes, (*call)->region, region.region)) continue;
      const auto [entry, is_new] = by_device.try_emplace(
          (*call)->stream.device,
          DeviceRegion{(*call)->stream.device, region.region, (*call)->device_start, (*call)->device_end});
      if (is_new) continue;
      entry->second.start = std::min(entry->second.start, (*call)->device_start);
      entry->second.end = std::max(entry->second.end, (*call)->device_end);
    }
    for (const auto& [device, span] : by_device) found.push_back(span);
  }
  return found;
}

}  // namespace kiln
