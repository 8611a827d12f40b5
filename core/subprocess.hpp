#pragma once

#include <optional>
#include <string>
#include <vector>

namespace kiln {

struct SubprocessResult {
  int exit_status = 0;  ///< 128 + signal for a process that a signal ended, as a shell has it
  std::string standard_output;
  std::string standard_error;
};

/// Runs a program, found on PATH unless its name has a slash, with no shell between, an empty standard input and this
/// process's environment. nullopt when there is no such program. SystemError when it cannot be started for another
/// reason. Where this process ignores SIGCHLD, or another part of it waits for all children, nobody can tell the exit
/// status: it is then 1 when the program wrote to its standard error, as those that fail do, else 0.
std::optional<SubprocessResult> run_subprocess(const std::vector<std::string>& arguments);

}  // namespace kiln
