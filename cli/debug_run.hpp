#pragma once

#include <span>

#include "cli/run_options.hpp"
#include "registry/dispatch/dispatch.hpp"

namespace kiln::cli {

/// Refuses what --debug does not go with. UsageError(value).
void check_debug_options(const RunOptions& options);

/// `kiln run --debug`: makes the call, and prints what debug_op found out about it. Returns the exit status: 1 when
/// the call failed or its results do not match the reference.
int debug_run(const OpSpec& spec, std::span<const Tensor> inputs, const Attributes& attributes,
              const DispatchOptions& options);

}  // namespace kiln::cli
