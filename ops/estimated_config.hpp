#pragma once

#include <optional>

#include "core/config.hpp"

namespace kiln {

/// A config, and the microseconds that it is estimated to take, copies of operands included; none where nothing is
/// known.
struct EstimatedConfig {
  Config config;
  std::optional<double> us;
};

}  // namespace kiln
