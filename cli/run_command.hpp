#pragma once

#include "cli/run_options.hpp"

namespace kiln::cli {

/// Runs one op on random or .npy inputs and prints what ran, how fast, and how right. Returns the exit status (1:
/// --check found a wrong result).
int run_command(const RunOptions& options);

}  // namespace kiln::cli
