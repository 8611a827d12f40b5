#include "cli/tuning_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "core/errors.hpp"
#include "registry/plan/device_target.hpp"
#include "registry/plan/registry.hpp"
#include "registry/plan/tuned_config.hpp"
#include "registry/tuning/function_tuning.hpp"
#include "runtime/device_info.hpp"

namespace kiln::cli {
namespace {

using Kind = EntryVerdict::Kind;

std::vector<Device> devices() {
  std::vector<Device> devices{Device::cpu()};
  for (int i = 0; i < device_count(DeviceType::cuda); ++i) devices.push_back(Device::cuda(i));
  return devices;
}

/// The reason, or empty.
std::string config_problem(const Variant& variant, Device device, const Config& config) {
  try {
    variant.space(target_of(device)).validate(config);
    return "";
  } catch (const UsageError& error) {
    return error.what();
  }
}

}  // namespace

EntryVerdict check_tuning_entry(const TuningEntry& entry) {
  const TuningKey& key = entry.key;
  const OpSpec* spec = Registry::process().find(key.op);
  if (spec == nullptr && key.variant == kFunctionVariant)
    return {Kind::elsewhere, "it is of a function, which is no op and known to its own program only"};
  if (spec == nullptr) return {Kind::elsewhere, fmt::format("there is no op '{}' in this program", key.op)};
  const auto variant = std::ranges::find(spec->variants, key.variant, &Variant::name);
  if (variant == spec->variants.end())
    return {Kind::stale, fmt::format("op '{}' has no variant '{}' any more", key.op, key.variant)};

  std::optional<Device> device;
  std::vector<std::string> present;
  for (const Device candidate : devices()) {
    const DeviceInfo& info = device_info(candidate);
    present.push_back(fmt::format("{} with {} processors", info.name, info.processors));
    if (info.name == key.device_model && info.processors == key.processors) device = candidate;
  }
  // Sources are the same for every device, so that a stale entry shows wherever it came from.
  if (kernel_hash(*spec, *variant) != key.kernel_hash) return {Kind::stale, "the kernel's source has changed since"};
  if (!device)
    return {Kind::elsewhere, fmt::format("it is of {} with {} processors, and this machine has {}", key.device_model,
                                         key.processors, fmt::join(present, " and "))};
  const std::string problem = config_problem(*variant, *device, entry.config);
  if (space_hash(variant->space(target_of(*device))) != key.space_hash)
    return {Kind::stale, fmt::format("the config space has changed since{}{}", problem.empty() ? "" : ": ", problem)};
  if (!problem.empty()) return {Kind::stale, problem};
  return {};
}

}  // namespace kiln::cli
