#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kiln {

/// The names of `known` that `wanted` is likely to be a slip for, best first, at most `limit`; empty when nothing is
/// close. Close means few edits (insertions, deletions, substitutions, swapped neighbours; letter case is free) or that
/// one contains the other.
std::vector<std::string> nearest_names(std::string_view wanted, std::span<const std::string> known,
                                       std::size_t limit = 3);

/// "; did you mean 'add' or 'and'?" for the end of an error message, or nothing when nothing is close.
std::string did_you_mean(std::string_view wanted, std::span<const std::string> known);

}  // namespace kiln
