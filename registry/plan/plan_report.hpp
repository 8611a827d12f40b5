#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/artifact_cache.hpp"
#include "core/config.hpp"
#include "ops/op_spec.hpp"

namespace kiln {

/// Where a plan's parts came from, for `kiln run` and logs.
struct PlanReport {
  std::string variant;
  Config config;
  std::string config_source;  ///< "given", "tuned", "tuned for 4096x4096, 4096x1024", "default"
  /// One kernel of the plan, in launch order.
  struct Kernel {
    std::string name;  ///< instance name
    std::string artifact_key;
    ArtifactCache::Origin artifact_origin = ArtifactCache::Origin::memory;
    std::int64_t artifact_us = 0;
    std::int64_t load_us = 0;
    bool overlaps_previous = false;  ///< see DispatchOptions
  };
  std::vector<Kernel> kernels;  ///< none when every output is empty
  Cost cost;
};

}  // namespace kiln
