#pragma once

#include <string>
#include <string_view>

#include "autotune/tuning_entry.hpp"
#include "core/device.hpp"

namespace kiln::cli {

/// What --measure and --l2 say, over the default of the device; empty: not given. UsageError(value) for what the CPU
/// does not have.
MeasuringPolicy measuring_policy(const std::string& measure, const std::string& l2, Device device);

/// The device that --device names, or when empty cuda:0 where there is one, else the CPU. UsageError(value) for one
/// that is not there.
Device chosen_device(const std::string& text);

/// Seconds in "30s", "2min", "500ms", "1.5" (seconds), which `option` says. UsageError(value) for another text, and for
/// 0.
double parse_budget_s(const std::string& text, std::string_view option = "--budget");

}  // namespace kiln::cli
