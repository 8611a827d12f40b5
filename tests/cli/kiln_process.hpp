#pragma once

#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/subprocess.hpp"

namespace kiln::cli {

/// The command, which the build puts beside the test.
inline std::string kiln_program() {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path() / "kiln";
}

inline SubprocessResult run_kiln(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), kiln_program());
  const auto result = run_subprocess(arguments);
  if (!result) throw std::runtime_error("there is no " + arguments[0]);
  return *result;
}

}  // namespace kiln::cli
