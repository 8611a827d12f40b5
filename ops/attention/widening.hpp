#pragma once

#include "ops/attention/call.hpp"

// Keys and values of 8 bits that are cast to 16 once, to scratch memory in front of the kernel. Otherwise a program
// casts them on their way to its products, and each block of queries does so again.

namespace kiln::attention {

/// Whether a call's programs together would cast so often that a kernel for it saves time. Where that was measured: on
/// sm_90a, for products of 16 bits.
bool is_worth_widening(const AttentionCall& call, const Target& target);

/// The call as the kernel sees it behind the casts. Keys stay what they are where queries are multiplied by them as
/// numbers of 8 bits.
AttentionCall widened(const AttentionCall& call);

/// Adds the casts that fill the workspaces of a widened call.
void add_casts(const AttentionCall& widened, const AttentionCall& call, const Target& target, LaunchPlan& plan);

}  // namespace kiln::attention
