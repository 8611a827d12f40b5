#include <fmt/format.h>

#include <string>
#include <vector>

#include "core/quantity.hpp"
#include "core/text_table.hpp"
#include "registry/inspection/debug_op.hpp"
#include "registry/tuning/selected_entries.hpp"
#include "registry/tuning/tuning_report.hpp"
#include "runtime/device_info.hpp"

namespace kiln {
namespace {

using Rows = std::vector<std::vector<std::string>>;

std::string layout(const DebuggedTensor& tensor) {
  const TensorView& view = tensor.view;
  return fmt::format("{} {} on {}, strides {}, {}, {}", name(view.dtype), to_string(view.shape), to_string(view.device),
                     to_string(view.strides), view.is_contiguous() ? "contiguous" : "not contiguous",
                     view.data == nullptr
                         ? "no memory"
                         : fmt::format("at {} (a multiple of {} bytes)", fmt::ptr(view.data), tensor.alignment_bytes));
}

void add_tensor(Rows& rows, const char* role, const DebuggedTensor& tensor) {
  const std::string label = fmt::format("{} {}", role, tensor.name);
  if (tensor.is_absent) {
    rows.push_back({label, "left out"});
    return;
  }
  rows.push_back({label, layout(tensor) + (tensor.is_changed ? ", changed by the op" : "")});
  const auto add = [&](const char* when, const std::optional<TensorStatistics>& statistics) {
    if (statistics) rows.push_back({"", when + to_string(*statistics, tensor.view.dtype)});
  };
  add(tensor.is_changed ? "before: " : "", tensor.before);
  add(tensor.is_changed ? "after: " : "", tensor.after);
}

std::string origin(const PlanReport::Kernel& kernel) {
  std::string load = fmt::format("loaded in {}", format_duration_us(static_cast<double>(kernel.load_us)));
  const std::string duration = format_duration_us(static_cast<double>(kernel.artifact_us));
  switch (kernel.artifact_origin) {
    case ArtifactCache::Origin::compiled:
      return fmt::format("compiled in {}, {}", duration, load);
    case ArtifactCache::Origin::disk:
      return fmt::format("read from the disk cache in {}, {}", duration, load);
    case ArtifactCache::Origin::memory:
      return fmt::format("found in memory, {}", load);
  }
  return load;
}

void add_plan(Rows& rows, const PlanReport& plan) {
  if (plan.kernels.empty()) {
    rows.push_back({"kernel", plan.config_source});  // "none: every output is empty"
    return;
  }
  rows.push_back({"variant", fmt::format("{}, {} ({})", plan.variant, config_text(plan.config), plan.config_source)});
  for (const PlanReport::Kernel& kernel : plan.kernels) {
    rows.push_back({"kernel", kernel.name});
    if (!kernel.artifact_key.empty())
      rows.push_back({"artifact", fmt::format("{} {}", kernel.artifact_key, origin(kernel))});
  }
}

void add_times(Rows& rows, const DebugReport& report) {
  if (report.first_us)
    rows.push_back({"first call", fmt::format("{}, {}", format_duration_us(*report.first_us),
                                              report.was_planned ? "as planned by an earlier call of this process"
                                                                 : "planning included")});
  if (const std::string skipped = skipped_text(report.skipped); !skipped.empty()) rows.push_back({"skipped", skipped});
  if (!report.no_warm_time.empty()) rows.push_back({"warm call", "not made, " + report.no_warm_time});
  if (!report.warm_us) return;
  std::string text = fmt::format("{} median of {}", format_duration_us(*report.warm_us), report.warm_calls);
  if (report.plan && *report.warm_us > 0) {
    const Cost& cost = report.plan->cost;
    if (cost.bytes > 0) text += fmt::format(", {:.4g} GB/s", cost.bytes / *report.warm_us * 1e-3);
    if (cost.flops > 0) text += fmt::format(", {:.4g} GFLOP/s", cost.flops / *report.warm_us * 1e-3);
  }
  rows.push_back({"warm call", text});
}

std::string verdict(const DebuggedResult& result) {
  if (!result.comparison) return fmt::format("{}: not compared, {}", result.name, result.why_not);
  const Comparison& comparison = *result.comparison;
  if (comparison.ok() && comparison.max_error == 0)
    return fmt::format("{}: ok, {} elements, all of them equal", result.name, comparison.num_elements);
  return fmt::format(
      "{}: {}, {} of {} elements are beyond the tolerance; largest error {:.3g}; worst at {}: {}, "
      "reference {}, allowed error {:.3g}",
      result.name, comparison.ok() ? "ok" : "WRONG", comparison.num_wrong, comparison.num_elements,
      comparison.max_error, coordinates(comparison.worst_index, result.shape),
      format_element(comparison.worst_actual, result.dtype), format_element(comparison.worst_expected, result.dtype),
      comparison.worst_allowed);
}

}  // namespace

std::string to_string(const DebugReport& report) {
  std::string call = report.op;
  for (const Attributes::Entry& entry : report.attributes.entries())
    call += fmt::format(" {}={}", entry.first, to_string(entry.second));
  Rows rows{{"op", call}};
  rows.push_back({"device", fmt::format("{} ({})", to_string(report.device), device_info(report.device).name)});
  for (const DebuggedTensor& tensor : report.inputs) add_tensor(rows, "input", tensor);
  for (const DebuggedTensor& tensor : report.outputs) add_tensor(rows, "output", tensor);
  if (report.plan) add_plan(rows, *report.plan);
  add_times(rows, report);
  for (const DebuggedResult& result : report.comparisons) rows.push_back({"reference", verdict(result)});
  if (report.memory_before) rows.push_back({"memory", "before: " + to_string(*report.memory_before, report.device)});
  if (report.memory_after) rows.push_back({"", "after: " + to_string(*report.memory_after, report.device)});
  std::string text = format_table(rows);
  if (!report.error.empty()) text += fmt::format("FAILED: {}\n", report.error);
  return text;
}

}  // namespace kiln
