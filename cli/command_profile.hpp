#pragma once

#include <optional>
#include <string>

#include "registry/profiling/profiler.hpp"

namespace kiln::cli {

/// What --profile FILE asks of a command: a profiler while it works, the trace, and the table.
class CommandProfile {
 public:
  /// Starts to record; an empty path asks for nothing. `measures_peak`: of devices whose peak is not known otherwise.
  /// UsageError(value) where the file cannot be written.
  CommandProfile(std::string path, bool measures_peak);

  /// Ends recording, so that what the command still does (a check, its output) is not in it.
  void stop();
  /// Writes the trace and prints the table, unless what the command prints is JSON. SystemError when the file system
  /// refuses.
  void finish(bool prints_json);

 private:
  std::string path_;
  bool measures_peak_;
  std::optional<Profiler> profiler_;
};

}  // namespace kiln::cli
