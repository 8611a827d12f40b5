#include "registry/plan/choice.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "core/errors.hpp"

namespace kiln {
namespace {

/// Whether all of a config's tunables are the variant's.
bool names_tunables_of(const Variant& variant, const Config& config, const Target& target) {
  const ConfigSpace space = variant.space(target);
  return std::all_of(config.entries().begin(), config.entries().end(), [&](const Config::Entry& entry) {
    return std::any_of(space.tunables().begin(), space.tunables().end(),
                       [&](const Tunable& tunable) { return tunable.name == entry.first; });
  });
}

std::optional<double> estimate_us(const Variant& variant, const OpCall& call, const Target& target) {
  return variant.estimate_us ? variant.estimate_us(call, target) : std::nullopt;
}

/// `first`, or if it says how fast it is the fastest of it and those behind it that do.
template <typename Iterator>
Iterator fastest(Iterator first, Iterator end, const OpCall& call, const Target& target) {
  std::optional<double> least_us = estimate_us(*first, call, target);
  if (!least_us) return first;
  Iterator best = first;
  for (Iterator variant = first + 1; variant != end; ++variant) {
    if (!variant->serves(call, target)) continue;
    if (const std::optional<double> us = estimate_us(*variant, call, target); us && *us < *least_us) {
      least_us = us;
      best = variant;
    }
  }
  return best;
}

}  // namespace

Choice choose(const Call& made, const Target& target, const Config* given, const TunedLookup& tuned,
              bool overlap_previous) {
  const OpSpec& spec = *made.spec;
  const OpCall call = made.seen_by_spec();
  Choice choice;
  const auto serves = [&](const Variant& variant) { return variant.serves(call, target); };
  auto serving = std::find_if(spec.variants.begin(), spec.variants.end(), serves);
  if (serving != spec.variants.end()) {
    const auto fastest_one = fastest(serving, spec.variants.end(), call, target);
    // A config that does not fit the fastest may be meant for another.
    const auto meant = [&](const Variant& variant) {
      return given == nullptr || names_tunables_of(variant, *given, target);
    };
    const auto other =
        meant(*fastest_one) ? fastest_one : std::find_if(serving, spec.variants.end(), [&](const Variant& variant) {
          return serves(variant) && meant(variant);
        });
    serving = other != spec.variants.end() ? other : fastest_one;
  }
  if (serving == spec.variants.end()) {
    std::string tensors;
    for (const TensorView& view : call.inputs) tensors += (tensors.empty() ? "" : "; ") + describe(view);
    throw_not_implemented("op '" + spec.name + "' has no kernel that serves this call on " + to_string(target) + ": " +
                          tensors + " (try contiguous tensors)");
  }
  choice.variant = &*serving;
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
                               .vector_width = launch.vector_width,
                               .overlaps_previous = can_overlap && (overlap_previous || !choice.requests.empty()),
                               .target = target});
  return choice;
}

}  // namespace kiln
