#pragma once

#include <span>
#include <string>
#include <vector>

#include "autotune/evidence.hpp"
#include "core/config.hpp"

/// Tuning over a list of configs that the caller gives, in place of a space.
namespace kiln::detail {

/// Each of `given` in full, in the order of the space: tunables that it leaves out have the values of `base`. Equal
/// ones come once. UsageError(value) for one outside of the space, which names its place in the list.
std::vector<Config> completed_configs(const ConfigSpace& space, const Config& base, std::span<const Config> given);

/// UsageError(value) for an empty list, and for one that holds a config twice.
void check_configs(std::span<const Config> given);

/// UsageError(value) for configs of different tunables, one of which is a slip: where there is no space to hold them
/// against.
void check_same_tunables(std::span<const Config> given);

/// UsageError(value) that says what became of each, where all of `listed` are failures among the evidence. `what`
/// begins the message: "op 'softmax'".
void check_some_worked(const std::string& what, std::span<const Config> listed,
                       std::span<const CandidateEvidence> evidence);

}  // namespace kiln::detail
