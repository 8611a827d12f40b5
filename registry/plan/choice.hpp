#pragma once

#include <string>
#include <vector>

#include "compiler/compile_request.hpp"
#include "registry/plan/call.hpp"
#include "registry/plan/tuned_config.hpp"

namespace kiln {

/// The variant, config and launch of one call on one target.
struct Choice {
  const Variant* variant = nullptr;
  Config config;
  std::string config_source;  ///< see PlanReport
  LaunchPlan plan;
  std::vector<CompileRequest> requests;  ///< of plan.launches
};
/// The variant is the preferred one (ops/preferred_variant.hpp). Needs no device. UsageError: not_implemented when no
/// variant serves the call, value for a `given` config outside the variant's space. `overlap_previous`: see
/// DispatchOptions; without effect where target or variant cannot. Where they can, each launch of the plan but the
/// first overlaps the one before it in any case.
Choice choose(const Call& call, const Target& target, const Config* given, const TunedLookup& tuned = {},
              bool overlap_previous = false);

}  // namespace kiln
