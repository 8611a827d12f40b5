#pragma once

#include <string>

namespace kiln::cli {

struct OpsOptions {
  std::string op;  ///< empty: all of them
  bool json = false;
};

/// Prints the registry, or one op of it.
int ops_command(const OpsOptions& options);

}  // namespace kiln::cli
