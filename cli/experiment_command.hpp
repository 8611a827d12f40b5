#pragma once

#include <span>

namespace kiln::cli {

/// `kiln experiment ARGUMENTS`: the experiments are the Python package's, and python3 takes this process's place to run
/// them. Returns only by throwing: SystemError, saying what to do, where python3 or a package kiln that it can import
/// is missing.
[[noreturn]] void experiment_command(std::span<char* const> arguments);

}  // namespace kiln::cli
