#pragma once

#include <optional>
#include <random>
#include <span>
#include <string>

#include "core/tensor.hpp"
#include "registry/plan/call.hpp"

namespace kiln {

/// Draws entries of an input that selects (InputSpec::selects), in CPU memory with any strides, uniformly from the
/// whole of their ranges. Entries that must be distinct and find no value left are -1, which ops skip.
void draw_entries(const TensorView& view, std::span<const SelectionRange> stated, std::mt19937_64& random);

/// How much of a call's work its inputs' values leave out; nullopt where no input selects. What selects is copied to
/// the CPU for it, which waits for the inputs' device.
std::optional<SkippedWork> skipped_work(const Call& call);

/// "44.0% of the work: 440 of 1000 entries of 'index'".
std::string to_string(const SkippedWork& work);
/// The same with what it means for a rate, for a line of a report; empty where nothing is skipped.
std::string skipped_text(const std::optional<SkippedWork>& work);

}  // namespace kiln
