#include "registry/plan/choice.hpp"

#include <optional>
#include <utility>

#include "core/errors.hpp"
#include "ops/preferred_variant.hpp"

namespace kiln {

Choice choose(const Call& made, const Target& target, const Config* given, const TunedLookup& tuned,
              bool overlap_previous) {
  const OpSpec& spec = *made.spec;
  const OpCall call = made.seen_by_spec();
  Choice choice;
  const Variant* const serving = preferred_variant(spec, call, target, given);
  if (serving == nullptr) {
    std::string tensors;
    for (const TensorView& view : call.inputs) tensors += (tensors.empty() ? "" : "; ") + describe(view);
    throw_not_implemented("op '" + spec.name + "' has no kernel that serves this call on " + to_string(target) + ": " +
                          tensors + " (try contiguous tensors)");
  }
  choice.variant = serving;
  choice.config = serving->default_config(call, target);
  choice.config_source = "default";
  if (given != nullptr) {
    choice.config_source = "given";
    for (const auto& [tunable, value] : given->entries()) choice.config.set(tunable, value);
    serving->space(target).validate(choice.config);
  } else if (tuned) {
    if (std::optional<TunedConfig> found = tuned(*serving)) {
      choice.config = std::move(found->config);
      choice.config_source = std::move(found->source);
    }
  }
  choice.plan = serving->plan(call, choice.config, target);
  const bool can_overlap = serving->waits_for_previous && can_overlap_previous(target);
  for (const KernelLaunch& launch : choice.plan.launches)
    choice.requests.push_back({.op = spec.name,
                               .configuration = to_string(choice.config),
                               .source = launch.source.path.empty() ? serving->source : launch.source,
                               .kernel = launch.kernel.empty() ? serving->kernel : launch.kernel,
                               .template_arguments = launch.template_arguments,
                               .num_parameters = launch.arguments.size(),
                               .parameter_types = launch.parameter_types,
                               .num_warps = launch.geometry.num_warps,
                               .copy_warps = launch.geometry.copy_warps,
                               .vector_width = launch.vector_width,
                               .overlaps_previous = can_overlap && (overlap_previous || !choice.requests.empty()),
                               .target = target});
  return choice;
}

}  // namespace kiln
