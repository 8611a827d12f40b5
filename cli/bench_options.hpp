#pragma once

#include <cstdint>
#include <string>

#include "cli/call_inputs.hpp"

namespace kiln::cli {

struct BenchOptions {
  CallText call;
  std::string device;   ///< empty: cuda:0 where there is one, else cpu
  std::string config;   ///< empty: what a dispatch would take
  std::string against;  ///< "default", "reference", a config; empty: nothing
  std::string budget;   ///< at most; empty: 3s, and in a sweep 0.5s for each size
  std::string measure;  ///< "eager", "graph"; empty: the default policy's
  std::string l2;       ///< "hot", "flushed"; empty: the default policy's
  std::string profile;  ///< file for a trace; empty: none
  std::uint64_t seed = 0;
  bool json = false;
  bool measured_peak = false;  ///< measure what the profile's roofline lacks
  bool is_sweep = false;
  std::string sweep;         ///< sizes, as parse_sweep_range takes them; empty: from small to larger than the caches
  std::string sweep_budget;  ///< of all sizes together; empty: a minute, or what the sizes' own budgets come to
  std::string plot;          ///< PNG file that a sweep draws; empty: none
};

}  // namespace kiln::cli
