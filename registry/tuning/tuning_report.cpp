#include "registry/tuning/tuning_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "core/quantity.hpp"
#include "core/text_table.hpp"
#include "registry/tuning/selected_entries.hpp"

namespace kiln {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kShown = 5;

/// Too few samples bound a time on one side or on neither.
bool is_known(const Interval& interval) {
  return interval.low > 0 && std::isfinite(interval.high);
}

/// "-" where there are too few samples to tell.
std::string interval_text(const CandidateEvidence& evidence) {
  if (!is_known(evidence.interval_us)) return "-";
  return fmt::format("{} to {}", format_duration_us(evidence.interval_us.low),
                     format_duration_us(evidence.interval_us.high));
}

/// "-" where nobody knows the work, as that of a function.
std::string rate_text(const Cost& cost, double us) {
  if (cost.bytes <= 0 && cost.flops <= 0) return "-";
  return cost.flops > 2 * cost.bytes ? fmt::format("{:.4g} GFLOP/s", cost.flops / us * 1e-3)
                                     : fmt::format("{:.4g} GB/s", cost.bytes / us * 1e-3);
}

Json config_json(const Config& config) {
  Json json = Json::object();
  for (const auto& [name, value] : config.entries()) json[name] = value;
  return json;
}

std::string relative_text(const CandidateEvidence& evidence) {
  if (!is_known(evidence.relative)) return "-";
  return fmt::format("{:.3f}", (evidence.relative.low + evidence.relative.high) / 2);
}

/// What a row of the table is, empty for the plain ones.
std::string role_text(const CandidateEvidence& evidence, const TuningEntry& entry) {
  const bool is_default = evidence.config == entry.default_config;
  if (evidence.config == entry.config) return is_default ? "chosen, default" : "chosen";
  return is_default ? "default" : evidence.outcome == Outcome::cut ? "cut" : "";
}

/// "3 mismatched, 1 uncompiled": how many had which end, but for those that were measured.
std::string failures_text(const TuningEntry& entry) {
  std::map<std::string, int> counts;
  for (const CandidateEvidence& evidence : entry.tried)
    if (is_failure(evidence.outcome)) ++counts[std::string(to_string(evidence.outcome))];
  std::vector<std::string> parts;
  for (const auto& [outcome, count] : counts) parts.push_back(fmt::format("{} {}", count, outcome));
  return fmt::format("{}", fmt::join(parts, ", "));
}

}  // namespace

std::string config_text(const Config& config) {
  return config.empty() ? "no tunables" : to_string(config);
}

std::string gain_text(const TuningEntry& entry) {
  if (entry.config == entry.default_config) return "the default stays";
  const CandidateEvidence* const chosen = entry.evidence_of(entry.config);
  const CandidateEvidence* const base = entry.evidence_of(entry.default_config);
  const double gain = chosen != nullptr && base != nullptr ? base->median_us / chosen->median_us : 1;
  return fmt::format("{:.3f}x ({:.3f} to {:.3f})", gain, 1 / entry.relative.high, 1 / entry.relative.low);
}

std::string tuning_text(const TuneReport& report) {
  const TuningEntry& entry = report.entry;
  std::vector<std::vector<std::string>> rows{{"", "config", "median", "95% interval", "of the default", "rate"}};
  std::vector<CandidateEvidence> timed;
  std::ranges::copy_if(entry.tried, std::back_inserter(timed),
                       [](const auto& evidence) { return evidence.samples > 0; });
  // On a busy machine the few samples of one that was cut may have a lower median than the best.
  std::ranges::stable_partition(timed, [](const auto& evidence) { return evidence.outcome != Outcome::cut; });
  std::size_t shown = 0;
  for (const CandidateEvidence& evidence : timed) {
    if (++shown > kShown && evidence.config != entry.default_config && evidence.config != entry.config) continue;
    rows.push_back({role_text(evidence, entry), config_text(evidence.config), format_duration_us(evidence.median_us),
                    interval_text(evidence), relative_text(evidence), rate_text(report.cost, evidence.median_us)});
  }
  std::string text = format_table(rows, 2);
  const bool is_default_kept = entry.config == entry.default_config;  // the verdict says so
  text += fmt::format("  {}{}\n", is_default_kept ? "" : "gain: " + gain_text(entry) + "; ", report.result.verdict);
  const std::string failures = failures_text(entry);
  text += fmt::format("  {} of {} configs measured{}{}, {} samples in {:.1f} s ({}){}\n", timed.size(),
                      report.result.candidates.size(), failures.empty() ? "" : ", ", failures, report.result.samples,
                      report.elapsed_s, to_string(entry.policy),
                      report.result.complete ? ""
                      : report.result.ended  ? "; a larger budget looks at more"
                                             : "; stopped before the search was over");
  if (const std::string skipped = skipped_text(report.skipped); !skipped.empty())
    text += fmt::format("  skipped: {}\n", skipped);
  if (report.result.reference_drift > 0.05)
    text += fmt::format("  the default's time moved by {:.0f}% meanwhile; the machine is not quiet\n",
                        100 * report.result.reference_drift);
  if (report.recorded && report.recorded->drift) text += "  " + report.recorded->drift->text + "\n";
  return text;
}

std::string tuning_json(const TuneReport& report) {
  const TuningEntry& entry = report.entry;
  Json json = {{"op", entry.key.op},
               {"variant", entry.key.variant},
               {"device", entry.key.device_model},
               {"dtypes", entry.key.dtypes},
               {"shapes", to_string(entry.key.shapes)},
               {"attributes", entry.key.attributes},
               {"config", config_json(entry.config)},
               {"default_config", config_json(entry.default_config)},
               {"relative", {entry.relative.low, entry.relative.high}},
               {"gain", gain_text(entry)},
               {"verdict", report.result.verdict},
               {"complete", report.result.complete},
               {"policy", to_string(entry.policy)},
               {"strategy", entry.strategy},
               {"candidates", report.result.candidates.size()},
               {"samples", report.result.samples},
               {"elapsed_s", report.elapsed_s},
               {"bytes", report.cost.bytes},
               {"flops", report.cost.flops},
               {"skipped_share", report.skipped ? report.skipped->share() : 0.0},
               {"tried", Json::array()}};
  for (const CandidateEvidence& evidence : entry.tried) {
    Json tried = {{"config", config_json(evidence.config)}, {"outcome", to_string(evidence.outcome)}};
    if (!evidence.reason.empty()) tried["reason"] = evidence.reason;
    if (evidence.samples > 0) {
      tried["median_us"] = evidence.median_us;
      if (is_known(evidence.interval_us)) tried["interval_us"] = {evidence.interval_us.low, evidence.interval_us.high};
      tried["samples"] = evidence.samples;
      tried["rank"] = evidence.rank;
      if (is_known(evidence.relative)) tried["relative"] = {evidence.relative.low, evidence.relative.high};
    }
    json["tried"].push_back(std::move(tried));
  }
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace kiln
