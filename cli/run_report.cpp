#include "cli/run_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>

#include "core/quantity.hpp"
#include "core/text_table.hpp"
#include "registry/tuning/selected_entries.hpp"
#include "runtime/device_info.hpp"

namespace kiln::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string_view origin_name(ArtifactCache::Origin origin) {
  switch (origin) {
    case ArtifactCache::Origin::memory:
      return "memory";
    case ArtifactCache::Origin::disk:
      return "disk";
    case ArtifactCache::Origin::compiled:
      return "compiled";
  }
  return "?";
}

Json tensors_json(const std::vector<TensorMeta>& metas, const auto& name_of) {
  Json list = Json::array();
  for (std::size_t i = 0; i < metas.size(); ++i)
    list.push_back({{"name", name_of(i)}, {"dtype", name(metas[i].dtype)}, {"shape", metas[i].shape.span()}});
  return list;
}

Json kernels_json(const PlanReport& plan) {
  Json list = Json::array();
  for (const PlanReport::Kernel& kernel : plan.kernels)
    list.push_back({{"kernel", kernel.name},
                    {"artifact", kernel.artifact_key},
                    {"origin", origin_name(kernel.artifact_origin)},
                    {"artifact_us", kernel.artifact_us},
                    {"load_us", kernel.load_us}});
  return list;
}

std::string check_line(const Comparison& check, const TensorMeta& output) {
  if (check.ok()) return fmt::format("ok: {} elements, largest error {:.3g}", check.num_elements, check.max_error);
  return fmt::format("WRONG: {} of {} elements; worst {}: {}, reference {}, allowed error {:.3g}", check.num_wrong,
                     check.num_elements, coordinates(check.worst_index, output.shape),
                     format_element(check.worst_actual, output.dtype),
                     format_element(check.worst_expected, output.dtype), check.worst_allowed);
}

}  // namespace

std::string to_text(const RunReport& report) {
  const PlanReport& plan = report.plan;
  std::vector<std::vector<std::string>> rows;
  rows.push_back({"op", signature(report.spec)});
  if (!report.inputs.empty())
    rows.push_back({"inputs", describe_inputs(report.spec, report.inputs) +
                                  (report.options.input_files.empty()
                                       ? fmt::format(" (random, seed {})", report.options.seed)
                                       : fmt::format(" (from {})", fmt::join(report.options.input_files, ", ")))});
  for (std::size_t i = 0; i < report.outputs.size(); ++i)
    rows.push_back(
        {"output",
         fmt::format("{} {} {}", report.output_names.at(i), name(report.outputs[i].dtype),
                     to_string(report.outputs[i].shape)) +
             (i < report.options.output_files.size() && report.ok() ? " -> " + report.options.output_files[i] : "")});
  rows.push_back({"device", fmt::format("{} ({})", to_string(report.device), device_info(report.device).name)});
  if (!plan.kernels.empty()) {
    rows.push_back(
        {"variant", fmt::format("{}, {} ({})", plan.variant,
                                plan.config.empty() ? "no tunables" : to_string(plan.config), plan.config_source)});
    for (const PlanReport::Kernel& kernel : plan.kernels) {
      rows.push_back({"kernel", kernel.name});
      rows.push_back({"artifact", fmt::format("{} {} in {}, loaded in {}", kernel.artifact_key,
                                              kernel.artifact_origin == ArtifactCache::Origin::compiled
                                                  ? "compiled"
                                                  : fmt::format("from {}", origin_name(kernel.artifact_origin)),
                                              format_duration_us(static_cast<double>(kernel.artifact_us)),
                                              format_duration_us(static_cast<double>(kernel.load_us)))});
    }
  } else {
    rows.push_back({"kernel", plan.config_source});  // "none: every output is empty"
  }
  rows.push_back(
      {"time", fmt::format("{} median of {} (min {}, p90 {})", format_duration_us(report.timing.median_us),
                           report.options.repeat.value_or(kUsualRepeat), format_duration_us(report.timing.min_us),
                           format_duration_us(report.timing.p90_us))});
  std::string rate = fmt::format("{:.4g} GB/s", report.gb_per_s());
  if (plan.cost.flops > 0) rate += fmt::format(", {:.4g} GFLOP/s", report.gflop_per_s());
  rows.push_back({"rate", rate});
  if (const std::string skipped = skipped_text(report.skipped); !skipped.empty()) rows.push_back({"skipped", skipped});
  for (std::size_t i = 0; i < report.checks.size(); ++i)
    rows.push_back({"check", check_line(report.checks[i], report.outputs[i])});
  rows.push_back({"total", format_duration_us(report.total_us)});
  return format_table(rows);
}

Json to_json(const RunReport& report) {
  const PlanReport& plan = report.plan;
  Json json;
  json["op"] = report.spec.name;
  json["device"] = to_string(report.device);
  json["device_name"] = device_info(report.device).name;
  json["inputs"] = tensors_json(report.inputs, [&](std::size_t i) { return input_name(report.spec, i); });
  json["input_files"] = report.options.input_files;
  if (report.options.input_files.empty() && !report.inputs.empty()) json["seed"] = report.options.seed;
  json["outputs"] = tensors_json(report.outputs, [&](std::size_t i) { return report.output_names.at(i); });
  json["output_files"] = report.options.output_files;
  json["variant"] = plan.variant;
  json["config"] = Json::object();
  for (const Config::Entry& entry : plan.config.entries()) json["config"][entry.first] = entry.second;
  json["config_source"] = plan.config_source;
  json["kernels"] = kernels_json(plan);
  json["time"] = {{"samples", report.options.repeat.value_or(kUsualRepeat)},
                  {"median_us", report.timing.median_us},
                  {"min_us", report.timing.min_us},
                  {"p10_us", report.timing.p10_us},
                  {"p90_us", report.timing.p90_us}};
  json["bytes"] = plan.cost.bytes;
  json["flops"] = plan.cost.flops;
  json["skipped_share"] = report.skipped ? report.skipped->share() : 0.0;
  json["gb_per_s"] = report.gb_per_s();
  json["gflop_per_s"] = report.gflop_per_s();
  if (report.options.check) {
    json["check"] = Json::array();
    for (std::size_t i = 0; i < report.checks.size(); ++i) {
      const Comparison& check = report.checks[i];
      Json entry = {{"output", report.output_names.at(i)},
                    {"ok", check.ok()},
                    {"elements", check.num_elements},
                    {"wrong", check.num_wrong},
                    {"max_error", check.max_error}};
      if (check.worst_index >= 0) {
        entry["worst"] = {{"at", coordinates(check.worst_index, report.outputs[i].shape)},
                          {"actual", format_element(check.worst_actual, report.outputs[i].dtype)},
                          {"expected", format_element(check.worst_expected, report.outputs[i].dtype)},
                          {"allowed_error", check.worst_allowed}};
      }
      json["check"].push_back(entry);
    }
  }
  json["total_ms"] = report.total_us * 1e-3;
  return json;
}

double RunReport::gb_per_s() const {
  return timing.median_us > 0 ? plan.cost.bytes / timing.median_us * 1e-3 : 0;
}

double RunReport::gflop_per_s() const {
  return timing.median_us > 0 ? plan.cost.flops / timing.median_us * 1e-3 : 0;
}

bool RunReport::ok() const {
  return std::all_of(checks.begin(), checks.end(), [](const Comparison& check) { return check.ok(); });
}

}  // namespace kiln::cli
