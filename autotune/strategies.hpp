#pragma once

#include <memory>

#include "autotune/strategy.hpp"

namespace kiln {

/// The strategy that `options` name, for a search over `board`.
std::unique_ptr<Strategy> make_strategy(const StrategyOptions& options, const Scoreboard& board);

}  // namespace kiln
