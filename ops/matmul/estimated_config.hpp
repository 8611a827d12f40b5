#pragma once

#include "core/config.hpp"

namespace kiln::matmul {

/// A config, and what it is estimated to take on an H200.
struct EstimatedConfig {
  Config config;
  double us;
};

}  // namespace kiln::matmul
