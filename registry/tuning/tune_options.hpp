#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <stop_token>
#include <vector>

#include "autotune/strategy.hpp"
#include "autotune/tuner.hpp"
#include "autotune/tuning_entry.hpp"
#include "core/config.hpp"
#include "runtime/stream.hpp"

namespace kiln {

struct TuneOptions {
  std::optional<Stream> stream = {};  ///< unset: the device's default stream
  /// To choose from, beside the default; tunables that one leaves out have the default's values. Empty: the whole
  /// space. All of them are tried, and a search of the whole space is not spared by one of these.
  std::vector<Config> configs = {};
  StrategyKind strategy = StrategyKind::automatic;
  std::uint64_t seed = 0;  ///< of strategies that sample the space
  double budget_s = 30;
  /// A candidate that takes this long, beyond twenty times what the default would take, counts as hung.
  double least_time_limit_s = 5;
  std::optional<MeasuringPolicy> measuring = {};  ///< unset: default_measuring_policy
  /// Keep the result: in the database on disk, and in this process at once.
  bool record = true;
  /// Go on from what the database knows of a search that was stopped less than a day ago, with the same compiler and
  /// driver: failures are not tried again.
  bool resume = true;
  std::function<void(const TuningProgress&)> progress = {};  ///< ten times a second at most
  /// A candidate does not return. Called on another thread, after what is known was recorded, unless it is the default,
  /// without which there is no choice; a GPU kernel that never ends can only be left by ending the process.
  std::function<void(const TuningEntry&)> hung = {};
  std::stop_token stop = {};
};

}  // namespace kiln
