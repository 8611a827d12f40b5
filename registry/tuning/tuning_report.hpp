#pragma once

#include <string>

#include "registry/tuning/tuning.hpp"

namespace kiln {

/// The five best configs with their intervals, what the choice gains over the default, and why it was chosen.
std::string tuning_text(const TuneReport& report);
/// The same with every config that was tried, as one line of JSON.
std::string tuning_json(const TuneReport& report);
/// "BLOCK_M=64 BLOCK_N=32", "no tunables".
std::string config_text(const Config& config);
/// "1.21x (1.19 to 1.23)" over the default; "the default stays" when it does.
std::string gain_text(const TuningEntry& entry);

}  // namespace kiln
