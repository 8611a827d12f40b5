#include "registry/plan/tuned_config.hpp"

#include <algorithm>
#include <map>
#include <mutex>
#include <vector>

#include "autotune/database.hpp"
#include "core/content_hash.hpp"
#include "core/errors.hpp"
#include "runtime/device_info.hpp"

namespace kiln {
namespace {

/// How inputs that select memory or work are drawn for what is measured. Raised when that changes: times of other
/// contents say nothing.
constexpr std::int64_t kDrawnEntries = 2;

}  // namespace

std::string layouts_text(std::span<const TensorView* const> tensors, Device device) {
  std::string text;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const TensorView* const tensor = tensors[i];
    if (tensor == nullptr) continue;
    if (!tensor->is_contiguous()) text += ", layout[" + std::to_string(i) + "]=" + to_string(tensor->strides);
    if (device.is_cuda() && !tensor->device.is_cuda()) text += ", host[" + std::to_string(i) + "]";
  }
  return text;
}

const std::string& kernel_hash(const OpSpec& spec, const Variant& variant) {
  // A registered variant never changes, and nor do the files it reads but under KILN_SOURCE_DIR, where an edit shows in
  // the next process.
  static std::mutex mutex;
  static auto* const hashes = new std::map<const Variant*, std::string>;
  const std::lock_guard lock(mutex);
  std::string& hash = (*hashes)[&variant];
  if (hash.empty()) {
    ContentHasher hasher;
    for (const KernelSource& file : transitive_sources(variant.source)) hasher.field(file.path).field(file.text);
    hasher.field(variant.kernel);
    const bool selects = std::any_of(spec.inputs.begin(), spec.inputs.end(),
                                     [](const InputSpec& input) { return input.selects || input.points_to; });
    if (selects) hasher.field(kDrawnEntries);
    hash = hasher.digest().hex();
  }
  return hash;
}

Attributes deciding_attributes(const OpSpec& spec, const Attributes& attributes) {
  Attributes deciding;
  for (const auto& [name, value] : attributes.entries()) {
    const auto found = std::find_if(spec.attributes.begin(), spec.attributes.end(),
                                    [&](const AttributeSpec& attribute) { return attribute.name == name; });
    if (found == spec.attributes.end() || found->decides_speed) deciding.set(name, value);
  }
  return deciding;
}

TuningKey tuning_key(const Call& call, const Variant& variant, const Target& target) {
  const DeviceInfo& info = device_info(call.device);
  std::vector<DType> dtypes;
  std::vector<const Dims*> shapes;
  std::vector<const TensorView*> inputs;
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    const TensorView* const input = call.input(i);
    if (input != nullptr) dtypes.push_back(input->dtype);
    shapes.push_back(input == nullptr ? nullptr : &input->shape);
    inputs.push_back(input);
  }
  return {.device_model = info.name,
          .processors = info.processors,
          .op = call.spec->name,
          .variant = variant.name,
          .dtypes = dtypes_text(dtypes),
          .shapes = shape_key(shapes, call.spec->shape_rule),
          .attributes =
              attributes_text(deciding_attributes(*call.spec, call.attributes)) + layouts_text(inputs, call.device),
          .kernel_hash = kernel_hash(*call.spec, variant),
          .space_hash = space_hash(variant.space(target))};
}

TunedLookup tuned_lookup(const Call& call, const Target& target, TuningPolicy policy) {
  if (policy == TuningPolicy::off) return {};
  return [&call, target, policy](const Variant& variant) -> std::optional<TunedConfig> {
    const TuningKey key = tuning_key(call, variant, target);
    TuningDatabase& database = TuningDatabase::process();
    std::optional<TunedConfig> found;
    if (const auto entry = database.find(key)) {
      found = {entry->config, "tuned"};
    } else if (policy == TuningPolicy::nearest) {
      if (const auto nearest = database.find_nearest(key))
        found = {nearest->entry->config, "tuned for " + to_string(nearest->entry->key.shapes)};
    }
    if (!found.has_value()) return std::nullopt;
    try {
      variant.space(target).validate(found->config);
    } catch (const UsageError& error) {
      detail::log_tuning("op '" + call.spec->name + "': the tuned config " + to_string(found->config) +
                         " is not used: " + error.what());
      return std::nullopt;
    }
    return found;
  };
}

}  // namespace kiln
