#pragma once

#include <cstdint>

#include "core/target.hpp"
#include "ops/attention/kernel_form.hpp"

namespace kiln::attention {

/// Of how many of `heads` heads, a divisor of these, the blocks are begun in turns: with the form's bounds blocks
/// differ in length, and a device that begins the longest ones of all heads first has work everywhere until the end.
/// Few heads at a time, since the keys and values of all of them pass through the cache at once. 1 where blocks are
/// alike.
std::int64_t heads_together(const ops::AttentionForm& form, std::int64_t heads, const Target& target);

}  // namespace kiln::attention
