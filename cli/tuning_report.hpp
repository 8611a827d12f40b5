#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "registry/tuning.hpp"

namespace kiln::cli {

/// The five best configs with their intervals, what the choice gains over the default, and why it was chosen.
std::string tuning_text(const TuneReport& report);
/// The same with every config that was tried.
nlohmann::ordered_json tuning_json(const TuneReport& report);
/// "BLOCK_M=64 BLOCK_N=32", "no tunables".
std::string config_text(const Config& config);
/// "1.21x (1.19 to 1.23)" over the default; "default" when it stays.
std::string gain_text(const TuningEntry& entry);

}  // namespace kiln::cli
