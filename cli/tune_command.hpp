#pragma once

#include <cstdint>
#include <string>

#include "cli/tune_calls.hpp"

namespace kiln::cli {

struct TuneCommandOptions {
  TuneCallsText calls;
  std::string device;          ///< empty: cuda:0 where there is one, else cpu
  std::string budget = "30s";  ///< of each call
  std::string strategy = "auto";
  std::string measure;  ///< "eager", "graph"; empty: the default policy's
  std::string l2;       ///< "hot", "flushed"; empty: the default policy's
  std::string plot;     ///< PNG file; empty: none
  std::uint64_t seed = 0;
  bool retune = false;  ///< nothing that an earlier tuning found is taken over
  bool json = false;
};

/// Tunes calls one after the other and records what was found. A request to end ends the call at hand with what is
/// known so far. Exit status 1 when a call could not be tuned, or what was found not be recorded.
int tune_command(const TuneCommandOptions& options);

}  // namespace kiln::cli
