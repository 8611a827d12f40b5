#pragma once

#include <string>
#include <unordered_map>

#include "core/config.hpp"
#include "ops/op_spec.hpp"

namespace kiln {

/// Configs of a call by what they launch, to find those that launch the same.
class LaunchTwins {
 public:
  /// The config that launches the very same as `plan` and was added before; null where there is none, and then `config`
  /// is added.
  const Config* find_or_add(const Config& config, LaunchPlan plan);

 private:
  struct Launched {
    Config config;
    LaunchPlan plan;
  };
  std::unordered_multimap<std::string, Launched> launched_;  ///< by kernels, template arguments and geometry
};

}  // namespace kiln
