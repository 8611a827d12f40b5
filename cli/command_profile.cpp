#include "cli/command_profile.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <utility>

#include "core/errors.hpp"
#include "core/output_file.hpp"

namespace kiln::cli {

CommandProfile::CommandProfile(std::string path) : path_(std::move(path)) {
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
  std::fputs(fmt::format("\n{}  trace: {}\n", to_string(profiler_->report()), path_).c_str(), stdout);
}

}  // namespace kiln::cli
