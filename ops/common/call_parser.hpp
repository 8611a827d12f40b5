#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "ops/op_spec.hpp"

namespace kiln::common {

/// A family's own struct of a call, made once for each OpCall, however many of the spec's functions ask for it. It may
/// hold on to the call's views.
template <typename Call>
class CallParser {
 public:
  using Parse = std::function<Call(const OpCall&)>;
  CallParser(Parse parse) : parse_(std::make_shared<const Parse>(std::move(parse))) {}

  const Call& operator()(const OpCall& call) const {
    if (call.parsed.parser != parse_) {
      call.parsed.value = std::make_shared<const Call>((*parse_)(call));
      call.parsed.parser = parse_;
    }
    return *static_cast<const Call*>(call.parsed.value.get());
  }

 private:
  std::shared_ptr<const Parse> parse_;
};

/// A Variant whose functions take the family's struct of the call; see Variant for what they say.
template <typename Call>
struct FamilyVariant {
  std::string name;
  std::string doc;
  KernelSource source;
  std::string kernel;
  std::function<bool(const Call&, const Target&)> serves = {};  ///< empty: every call
  std::function<ConfigSpace(const Target&)> space;
  /// Empty: the first value of each tunable.
  std::function<Config(const Call&, const Target&)> default_config = {};
  std::function<LaunchPlan(const Call&, const Config&, const Target&)> plan;
  std::function<bool(const Call&, const Config&, const Target&)> worth_trying = {};
  /// In place of default_config: with what it takes. Made once for each call and target.
  std::function<EstimatedConfig(const Call&, const Target&)> estimated_default = {};
  std::function<std::vector<Config>(const Call&, const Target&)> ranking = {};
};

inline Config first_config(const ConfigSpace& space) {
  Config config;
  for (const Tunable& tunable : space.tunables()) config.set(tunable.name, tunable.values.front());
  return config;
}

/// The variant for the registry: each call is parsed by `parse`, once.
template <typename Call>
Variant variant_of(const CallParser<Call>& parse, FamilyVariant<Call> family) {
  Variant variant;
  variant.name = std::move(family.name);
  variant.doc = std::move(family.doc);
  variant.source = std::move(family.source);
  variant.kernel = std::move(family.kernel);
  variant.space = family.space;
  variant.serves = [parse, serves = std::move(family.serves)](const OpCall& call, const Target& target) {
    return !serves || serves(parse(call), target);
  };
  variant.default_config = [parse, space = std::move(family.space), choose = std::move(family.default_config)](
                               const OpCall& call, const Target& target) {
    return choose ? choose(parse(call), target) : first_config(space(target));
  };
  variant.plan = [parse, plan = std::move(family.plan)](const OpCall& call, const Config& config,
                                                        const Target& target) {
    return plan(parse(call), config, target);
  };
  if (family.estimated_default) {
    const auto remembered = [parse, estimate = std::move(family.estimated_default), self = std::make_shared<char>()](
                                const OpCall& call, const Target& target) -> const EstimatedConfig& {
      const Call& parsed = parse(call);
      std::vector<ParsedCall::Default>& defaults = call.parsed.defaults;
      const auto known = std::find_if(defaults.begin(), defaults.end(), [&](const ParsedCall::Default& other) {
        return other.variant == self && other.arch == target.arch;
      });
      if (known != defaults.end()) return known->config;
      defaults.push_back({self, target.arch, estimate(parsed, target)});
      return defaults.back().config;
    };
    variant.default_config = [remembered](const OpCall& call, const Target& target) {
      return remembered(call, target).config;
    };
    variant.estimate_us = [remembered](const OpCall& call, const Target& target) {
      return remembered(call, target).us;
    };
  }
  if (family.ranking)
    variant.ranking = [parse, ranking = std::move(family.ranking)](const OpCall& call, const Target& target) {
      return ranking(parse(call), target);
    };
  if (family.worth_trying)
    variant.worth_trying = [parse, worth_trying = std::move(family.worth_trying)](
                               const OpCall& call, const Config& config, const Target& target) {
      return worth_trying(parse(call), config, target);
    };
  return variant;
}

}  // namespace kiln::common
