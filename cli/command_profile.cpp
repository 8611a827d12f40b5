#include "cli/command_profile.hpp"

#include <fmt/format.h>

#include <utility>

#include "cli/standard_streams.hpp"
#include "core/errors.hpp"
#include "core/output_file.hpp"
#include "registry/inspection/measured_peak.hpp"

namespace kiln::cli {

CommandProfile::CommandProfile(std::string path, bool measures_peak)
    : path_(std::move(path)), measures_peak_(measures_peak) {
  if (path_.empty()) return;
  try {
    check_output_path(path_);
  } catch (const SystemError& error) {
    throw_value_error(fmt::format("--profile: {}", error.what()));
  }
  profiler_.emplace();
}

void CommandProfile::stop() {
  if (profiler_) profiler_->stop();
}

void CommandProfile::finish(bool prints_json) {
  if (!profiler_) return;
  profiler_->write_trace(path_);
  if (prints_json) return;
  ProfileReport report = profiler_->report();
  if (measures_peak_ && !report.devices_without_peak.empty()) {
    for (const Device device : report.devices_without_peak) measured_peak(device);
    report = profiler_->report();
  }
  print_text(fmt::format("\n{}  trace: {}\n", to_string(report), path_));
}

}  // namespace kiln::cli
