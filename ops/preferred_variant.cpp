#include "ops/preferred_variant.hpp"

#include <algorithm>
#include <optional>
#include <string>

namespace kiln {
namespace {

std::optional<double> estimate_us(const Variant& variant, const OpCall& call, const Target& target) {
  return variant.estimate_us ? variant.estimate_us(call, target) : std::nullopt;
}

bool has_tunables_of(const Variant& variant, const Config& config, const Target& target) {
  const ConfigSpace space = variant.space(target);
  const auto has = [&](const std::string& name) {
    return std::any_of(space.tunables().begin(), space.tunables().end(),
                       [&](const Tunable& tunable) { return tunable.name == name; });
  };
  return std::all_of(config.entries().begin(), config.entries().end(),
                     [&](const Config::Entry& entry) { return has(entry.first); });
}

}  // namespace

const Variant* preferred_variant(const OpSpec& spec, const OpCall& call, const Target& target, const Config* given) {
  const auto end = spec.variants.end();
  const auto first =
      std::find_if(spec.variants.begin(), end, [&](const Variant& variant) { return variant.serves(call, target); });
  if (first == end) return nullptr;
  const Variant* best = &*first;
  if (std::optional<double> least_us = estimate_us(*first, call, target)) {
    for (auto variant = first + 1; variant != end; ++variant) {
      if (!variant->estimate_us || !variant->serves(call, target)) continue;
      const std::optional<double> us = estimate_us(*variant, call, target);
      if (!us || *us >= *least_us) continue;
      least_us = us;
      best = &*variant;
    }
  }
  if (given == nullptr || has_tunables_of(*best, *given, target)) return best;
  const auto meant = std::find_if(first, end, [&](const Variant& variant) {
    return variant.serves(call, target) && has_tunables_of(variant, *given, target);
  });
  return meant != end ? &*meant : best;
}

}  // namespace kiln
