#pragma once

#include <string>

#include "cli/call_inputs.hpp"

namespace kiln::cli {

struct InspectOptions {
  CallText call;
  std::string device;  ///< "cpu", "cuda:N"; empty with an empty target: cuda:0 where there is one, else cpu
  std::string target;  ///< "sm_90a": compiles for a GPU that need not be there
  std::string emit = "source";
  std::string config;
  bool json = false;
};

/// Shows what a call's kernel looks like on its way to machine code.
int inspect_command(const InspectOptions& options);

}  // namespace kiln::cli
