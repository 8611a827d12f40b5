#pragma once

#include <vector>

#include "ops/attention/merge_call.hpp"
#include "ops/op_spec.hpp"

namespace kiln::attention {

/// Parts and columns that a program takes at a time.
ConfigSpace merge_space(const Target& target);
Config default_merge_tiling(const MergeCall& merge, const Target& target);

/// The launch without its parameters: out, lse, outs, lses and the iteration. UsageError(value) naming `op` for more
/// rows than a GPU's grid holds.
KernelLaunch merge_launch(const char* op, const MergeCall& merge, const Config& config, const Target& target);

std::vector<Variant> merge_variants();

}  // namespace kiln::attention
