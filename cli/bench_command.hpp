#pragma once

#include "cli/bench_options.hpp"

namespace kiln::cli {

/// Times one op until its median is known to 1% or 0.5 us, or the budget is spent; beside another config or the op's
/// reference in turns, so that whatever the machine does meets both alike.
int bench_command(const BenchOptions& options);

}  // namespace kiln::cli
