#pragma once

#include <string>

namespace kiln {

/// What the disk refused, on its way from the system call to the line that tells of it. It leaves the file of the class
/// that reports it as text only.
struct DiskFailure {
  std::string what;
  int code;  ///< errno; 0 when `what` says it all
};

}  // namespace kiln
