#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cli/run_options.hpp"
#include "registry/dispatch/dispatch.hpp"
#include "registry/inspection/comparison.hpp"
#include "runtime/event_timer.hpp"

namespace kiln::cli {

/// Everything a finished run has to tell.
struct RunReport {
  const OpSpec& spec;
  const RunOptions& options;
  Device device;
  std::vector<TensorMeta> inputs;
  std::vector<TensorMeta> outputs;
  std::vector<std::string> output_names;
  std::optional<SkippedWork> skipped;  ///< nullopt where no input selects work
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
nlohmann::ordered_json to_json(const RunReport& report);

}  // namespace kiln::cli
