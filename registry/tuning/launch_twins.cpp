#include "registry/tuning/launch_twins.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

namespace kiln {
namespace {

/// Kernels, template arguments and geometry of a plan.
std::string signature(const LaunchPlan& plan) {
  std::string text;
  for (const KernelLaunch& launch : plan.launches) {
    text += launch.kernel;
    for (const TemplateArgument& argument : launch.template_arguments) text += fmt::format(",{}", spell(argument));
    const LaunchGeometry& geometry = launch.geometry;
    text += fmt::format(";{} {} {} {} {} {};", fmt::join(geometry.grid, "x"), geometry.num_warps, geometry.copy_warps,
                        geometry.shared_bytes, geometry.overlaps_previous, launch.vector_width);
  }
  return text;
}

bool same_arguments(const LaunchPlan& a, const LaunchPlan& b) {
  return a.workspace_bytes == b.workspace_bytes &&
         std::equal(a.launches.begin(), a.launches.end(), b.launches.begin(), b.launches.end(),
                    [](const KernelLaunch& x, const KernelLaunch& y) { return x.arguments == y.arguments; });
}

}  // namespace

const Config* LaunchTwins::find_or_add(const Config& config, LaunchPlan plan) {
  const std::string key = signature(plan);
  const auto [first, last] = launched_.equal_range(key);
  const auto twin = std::find_if(first, last, [&](const auto& item) { return same_arguments(item.second.plan, plan); });
  if (twin != last) return &twin->second.config;
  launched_.emplace(key, Launched{config, std::move(plan)});
  return nullptr;
}

}  // namespace kiln
