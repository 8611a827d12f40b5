#pragma once

#include <string>
#include <vector>

#include "cli/run_command.hpp"
#include "registry/comparison.hpp"
#include "registry/dispatch.hpp"
#include "runtime/event_timer.hpp"

namespace kiln::cli {

/// Everything a finished run has to tell.
struct RunReport {
  const OpSpec& spec;
  const RunOptions& options;
  Device device;
  std::vector<TensorMeta> inputs;
  std::vector<TensorMeta> outputs;
  const PlanReport& plan;
  TimingSummary timing;
  std::vector<Comparison> checks;
  double total_us;

  double gb_per_s() const;
  double gflop_per_s() const;
  /// No check failed.
  bool ok() const;
};

/// For people: one aligned line per fact.
std::string to_text(const RunReport& report);
/// The same facts as a JSON object.
std::string to_json_text(const RunReport& report);

}  // namespace kiln::cli
