#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/call_inputs.hpp"

namespace kiln::cli {

constexpr int kUsualRepeat = 10;

struct RunOptions {
  CallText call;
  std::string device;  ///< empty: cuda:0 where there is one, else cpu
  std::string config;  ///< empty: the op's default
  std::vector<std::string> input_files;
  std::vector<std::string> output_files;
  std::uint64_t seed = 0;
  std::optional<int> repeat;  ///< timed runs; kUsualRepeat unless given
  bool check = false;
  bool debug = false;        ///< debug_op's report in place of the usual one
  bool output_bits = false;  ///< write bf16 and fp8 outputs as their bits
  std::string profile;       ///< file for a trace; empty: none
  bool json = false;
  bool measured_peak = false;  ///< measure what the profile's roofline lacks
};

}  // namespace kiln::cli
