#include "cli/sweep_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/quantity.hpp"
#include "core/text_table.hpp"
#include "registry/tuning/selected_entries.hpp"

namespace kiln::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kSaturated = 0.9;
/// Times that are no longer than this, over the shortest, are one launch's.
constexpr double kAboutAsLong = 1.25;
/// Above this much of the measured peak data did not come from memory alone.
constexpr double kBeyondPeak = 1.05;

double skipped_share(const SweepPoint& point) {
  return point.skipped ? point.skipped->share() : 0;
}

double share_of_peak(const SweepReport& report, const SweepPoint& point) {
  return point.gb_s() / report.peak->bandwidth_gb_s;
}

double share_of_matmul(const SweepReport& report, const SweepPoint& point) {
  return point.tflop_s() / report.matmul_peak->tflop_s();
}

std::string percent(double share) {
  return fmt::format("{:.1f}%", 100 * share);
}

std::string size_text(const SweepReport& report, std::size_t index) {
  const SweepPoint& point = report.points[index];
  return fmt::format("{}={} ({})", report.variable, point.value,
                     format_bytes(static_cast<std::int64_t>(point.data_bytes)));
}

std::string rate_text(const SweepReport& report, bool is_compute_bound, std::size_t index) {
  const SweepPoint& point = report.points[index];
  if (is_compute_bound)
    return fmt::format("{:.4g} TFLOP/s, {} of matmul's", point.tflop_s(), percent(share_of_matmul(report, point)));
  return fmt::format("{:.4g} GB/s, {} of the peak", point.gb_s(), percent(share_of_peak(report, point)));
}

std::string table(const SweepReport& report) {
  std::vector<std::vector<std::string>> rows{
      {report.variable, "data", "median", "95% interval", "GB/s", "of the peak"}};
  if (report.matmul_peak != nullptr) rows[0].insert(rows[0].end(), {"TFLOP/s", "of matmul's"});
  rows[0].emplace_back("config");
  for (const SweepPoint& point : report.points) {
    std::vector<std::string>& row = rows.emplace_back();
    row = {std::to_string(point.value),
           format_bytes(static_cast<std::int64_t>(point.data_bytes)),
           format_duration_us(point.median_us),
           point.samples < static_cast<std::int64_t>(kFewestForInterval)
               ? "-"
               : fmt::format("{} to {}", format_duration_us(point.interval_us.low),
                             format_duration_us(point.interval_us.high)),
           fmt::format("{:.4g}", point.gb_s()),
           percent(share_of_peak(report, point))};
    if (report.matmul_peak != nullptr)
      row.insert(row.end(), {fmt::format("{:.4g}", point.tflop_s()), percent(share_of_matmul(report, point))});
    row.push_back(fmt::format("{} ({})", point.config, point.config_source));
  }
  return format_table(rows, 2);
}

Json rate_json(const MeasuredRate& rate) {
  return {
      {"op", rate.op},       {"call", rate.call},        {"config", to_string(rate.config)}, {"bytes", rate.bytes},
      {"flops", rate.flops}, {"best_us", rate.best_us},  {"median_us", rate.median_us},      {"samples", rate.samples},
      {"gb_s", rate.gb_s()}, {"tflop_s", rate.tflop_s()}};
}

Json point_json(const SweepReport& report, const SweepPoint& point) {
  const bool has_interval = point.samples >= static_cast<std::int64_t>(kFewestForInterval);
  Json json = {{"value", point.value},
               {"inputs", point.inputs},
               {"data_bytes", point.data_bytes},
               {"bytes", point.bytes},
               {"flops", point.flops},
               {"median_us", point.median_us},
               {"interval_us", has_interval ? Json{point.interval_us.low, point.interval_us.high} : Json(nullptr)},
               {"samples", point.samples},
               {"skipped_share", skipped_share(point)},
               {"gb_s", point.gb_s()},
               {"tflop_s", point.tflop_s()},
               {"share_of_peak", share_of_peak(report, point)},
               {"config", point.config},
               {"config_source", point.config_source}};
  if (report.matmul_peak != nullptr) json["share_of_matmul_peak"] = share_of_matmul(report, point);
  return json;
}

}  // namespace

SweepSummary summarize_sweep(const SweepReport& report) {
  const std::vector<SweepPoint>& points = report.points;
  SweepSummary summary;
  if (report.matmul_peak != nullptr) {
    const double ridge = report.matmul_peak->tflop_s() * 1e3 / report.peak->bandwidth_gb_s;
    summary.is_compute_bound = points.back().flops > ridge * points.back().bytes;
  }
  const auto rate = [&](const SweepPoint& point) { return summary.is_compute_bound ? point.tflop_s() : point.gb_s(); };
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (rate(points[i]) > rate(points[summary.best])) summary.best = i;
    const bool exceeds_caches = points[i].data_bytes > static_cast<double>(report.peak->cache_bytes);
    if (exceeds_caches && (!summary.beyond_caches || rate(points[i]) > rate(points[*summary.beyond_caches])))
      summary.beyond_caches = i;
  }
  while (rate(points[summary.saturated]) < kSaturated * rate(points[summary.best])) ++summary.saturated;
  double shortest_us = points[0].median_us;
  for (std::size_t i = 1; i < points.size(); ++i) {
    shortest_us = std::min(shortest_us, points[i].median_us);
    if (points[i].median_us > kAboutAsLong * shortest_us) break;
    summary.launch_bound = i;
  }
  return summary;
}

std::string to_text(const SweepReport& report) {
  std::string text = fmt::format("{} {} on {} ({}), {}\n", report.op, report.pattern, report.device, report.device_name,
                                 report.policy);
  text += fmt::format("  measured peak: {}\n", to_string(*report.peak));
  if (report.matmul_peak != nullptr)
    text += fmt::format("  measured peak of matmul: {:.4g} TFLOP/s by {}\n", report.matmul_peak->tflop_s(),
                        report.matmul_peak->call);
  text += table(report);
  const SweepSummary summary = summarize_sweep(report);
  const auto most = std::ranges::max_element(report.points, {}, &skipped_share);
  if (const std::string skipped = skipped_text(most->skipped); !skipped.empty())
    text += fmt::format("  skipped, at {}={} the most: {}\n", report.variable, most->value, skipped);
  if (summary.launch_bound)
    text += fmt::format("  up to {} the time is that of a launch, {}\n", size_text(report, *summary.launch_bound),
                        format_duration_us(report.points[*summary.launch_bound].median_us));
  text += fmt::format("  saturates at {}: {}\n", size_text(report, summary.saturated),
                      rate_text(report, summary.is_compute_bound, summary.saturated));
  text += fmt::format("  best at {}: {}\n", size_text(report, summary.best),
                      rate_text(report, summary.is_compute_bound, summary.best));
  const std::string caches = format_bytes(report.peak->cache_bytes);
  if (!summary.is_compute_bound && share_of_peak(report, report.points[summary.best]) > kBeyondPeak)
    text += fmt::format("  above 100% the data is in caches, which hold {} at the last level\n", caches);
  if (report.peak->cache_bytes > 0 && !summary.beyond_caches)
    text += fmt::format("  no size is larger than the caches, {}\n", caches);
  else if (summary.beyond_caches && *summary.beyond_caches != summary.best)
    text += fmt::format("  best from memory at {}: {}\n", size_text(report, *summary.beyond_caches),
                        rate_text(report, summary.is_compute_bound, *summary.beyond_caches));
  if (!report.ended.empty()) text += fmt::format("  the sweep ends here: {}\n", report.ended);
  return text;
}

Json to_json(const SweepReport& report) {
  Json json = {{"op", report.op},
               {"pattern", report.pattern},
               {"variable", report.variable},
               {"device", report.device},
               {"device_name", report.device_name},
               {"policy", report.policy},
               {"peak_gb_s", report.peak->bandwidth_gb_s},
               {"peak_rates", Json::array()},
               {"cache_bytes", report.peak->cache_bytes}};
  for (const MeasuredRate& rate : report.peak->rates) json["peak_rates"].push_back(rate_json(rate));
  if (report.matmul_peak != nullptr) {
    json["matmul_peak_tflop_s"] = report.matmul_peak->tflop_s();
    json["matmul_peak_rate"] = rate_json(*report.matmul_peak);
  }
  json["points"] = Json::array();
  for (const SweepPoint& point : report.points) json["points"].push_back(point_json(report, point));
  const SweepSummary summary = summarize_sweep(report);
  const auto value_at = [&](const std::optional<std::size_t>& index) {
    return index ? Json(report.points[*index].value) : Json(nullptr);
  };
  json["is_compute_bound"] = summary.is_compute_bound;
  json["best"] = value_at(summary.best);
  json["saturated"] = value_at(summary.saturated);
  json["launch_bound"] = value_at(summary.launch_bound);
  json["best_beyond_caches"] = value_at(summary.beyond_caches);
  json["ended"] = report.ended;
  return json;
}

}  // namespace kiln::cli
