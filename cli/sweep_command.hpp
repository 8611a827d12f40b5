#pragma once

#include "cli/bench_options.hpp"

namespace kiln::cli {

/// `kiln bench OP --sweep`: times an op at sizes that grow, beside what the device's memory was measured to give. Sizes
/// that do not fit memory or the time there is, or that the op refuses, end the sweep; when it is the first,
/// UsageError(value).
int sweep_command(const BenchOptions& options);

}  // namespace kiln::cli
