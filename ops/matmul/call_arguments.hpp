#pragma once

#include "ops/matmul/call.hpp"
#include "ops/matmul/iteration.hpp"
#include "ops/matmul/tiling.hpp"

namespace kiln::matmul {

// What launches of the family pass to kernels.

/// For tiles of block_m x block_n and `split` of k. UsageError(value) naming the op for more tiles than a
/// grid holds.
ops::MatmulIteration make_iteration(const MatmulCall& call, std::int64_t block_m, std::int64_t block_n,
                                    const KSplit& split, const Target& target);

/// What a kernel with an epilogue takes from the addend on.
void add_epilogue_parameters(const MatmulCall& call, const ops::MatmulIteration& it,
                             common::KernelParameters& parameters);

/// What a kernel's first template argument is: the epilogue, or where k is in parts the type of their sums.
TemplateArgument first_argument(const MatmulCall& call, const KSplit& split);

/// Ends a plan with its last launch, which has all but what follows from `it`: kernel "`stem`_kernel" takes the
/// epilogue's types and parameters; "`stem`_partial_kernel", one part of k, is followed by the kernel that joins them.
void end_plan(const MatmulCall& call, const ops::MatmulIteration& it, const Target& target, std::string_view stem,
              LaunchPlan& plan);

}  // namespace kiln::matmul
