#include "cli/debug_run.hpp"

#include <fmt/format.h>

#include "cli/standard_streams.hpp"
#include "core/errors.hpp"
#include "registry/inspection/debug_op.hpp"

namespace kiln::cli {

void check_debug_options(const RunOptions& options) {
  if (!options.debug) return;
  const auto refuse = [](const char* option) {
    throw_value_error(fmt::format("--debug prints what it finds and writes no files; leave {} out", option));
  };
  if (options.repeat) throw_value_error("--debug times a call in a way of its own; leave --repeat out");
  if (options.json) refuse("--json");
  if (!options.output_files.empty()) refuse("--output");
  if (options.output_bits) refuse("--output-bits");
  if (!options.profile.empty()) refuse("--profile");
}

int debug_run(const OpSpec& spec, std::span<const Tensor> inputs, const Attributes& attributes,
              const DispatchOptions& options) {
  const DebugReport report = debug_op(spec.name, inputs, attributes, options);
  print_text(to_string(report));
  if (report.ok()) return 0;
  print_error(fmt::format("op '{}' {} on {}", spec.name,
                          report.error.empty() ? "does not match its reference" : "failed", to_string(report.device)));
  return 1;
}

}  // namespace kiln::cli
