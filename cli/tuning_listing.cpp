#include "cli/tuning_listing.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "autotune/database_document.hpp"
#include "core/quantity.hpp"
#include "core/text_table.hpp"
#include "registry/tuning/tuning_report.hpp"

namespace kiln::cli {
namespace {

using Json = nlohmann::ordered_json;
using Rows = std::vector<std::vector<std::string>>;

constexpr std::size_t kShownConfigs = 10;
constexpr std::size_t kShortKeyDigits = 12;

std::string interval_text(const Interval& interval) {
  return std::isfinite(interval.high) ? fmt::format("{:.5g} to {:.5g} us", interval.low, interval.high) : "?";
}

std::string time_of(const TuningEntry& entry, const Config& config) {
  const CandidateEvidence* evidence = entry.evidence_of(config);
  return evidence == nullptr ? "not measured" : format_duration_us(evidence->median_us);
}

std::string software(const std::string& driver, const std::string& compiler) {
  return driver.empty() ? compiler : fmt::format("driver {}, {}", driver, compiler);
}

/// One side of a merge: what it chose, and what that rests on.
std::string choice_text(const TuningEntry& entry) {
  const auto measured =
      std::ranges::count_if(entry.tried, [](const CandidateEvidence& tried) { return tried.samples > 0; });
  return fmt::format("{}  {} ({}; {} measured; {}; {})", to_string(entry.config), time_of(entry, entry.config),
                     gain_text(entry), format_count(measured, "config"), format_date(entry.date_unix_s),
                     software(entry.driver, entry.compiler));
}

std::string_view kind_name(MergeOutcome::Kind kind) {
  switch (kind) {
    case MergeOutcome::Kind::added:
      return "added";
    case MergeOutcome::Kind::replaced:
      return "replaced";
    case MergeOutcome::Kind::kept:
      return "kept";
    case MergeOutcome::Kind::identical:
      return "identical";
  }
  return "?";
}

}  // namespace

Json entry_json(const TuningEntry& entry, bool evidence) {
  Json json = {{"key", hash_of(entry.key).hex()}};
  const Json fields = Json::parse(format_entry(entry));
  for (const auto& [name, value] : fields.items())
    if (evidence || (name != "tried" && name != "history")) json[name] = value;
  return json;
}

Json outcome_json(const MergeOutcome& outcome) {
  Json json = {{"outcome", kind_name(outcome.kind)},
               {"reason", outcome.reason},
               {"offered", entry_json(*outcome.offered, /*evidence=*/false)}};
  if (outcome.former) json["former"] = entry_json(*outcome.former, /*evidence=*/false);
  if (outcome.drift)
    json["drift"] = {{"config", to_string(outcome.drift->config)},
                     {"before_us", outcome.drift->before_us},
                     {"now_us", outcome.drift->now_us}};
  return json;
}

std::vector<std::string> entry_header() {
  return {"KEY", "TIME", "GAIN", "TUNED", "DEVICE", "CONFIG", "CALL"};
}

std::vector<std::string> entry_row(const TuningEntry& entry) {
  return {hash_of(entry.key).hex().substr(0, kShortKeyDigits),
          time_of(entry, entry.config),
          gain_text(entry),
          format_age_since(entry.date_unix_s) + " ago",
          fmt::format("{} ({})", entry.key.device_model, entry.key.processors),
          entry.config.empty() ? "-" : to_string(entry.config),
          to_string(entry.key)};
}

std::string entry_text(const TuningEntry& entry) {
  const TuningKey& key = entry.key;
  Rows rows{{"key", hash_of(key).hex()},
            {"call", to_string(key)},
            {"device", fmt::format("{}, {} processors", key.device_model, key.processors)},
            {"config", to_string(entry.config)},
            {"default", fmt::format("{} ({})", to_string(entry.default_config), time_of(entry, entry.default_config))},
            {"gain", gain_text(entry)},
            {"measured", fmt::format("{}; {} search; {}", to_string(entry.policy), entry.strategy,
                                     software(entry.driver, entry.compiler))},
            {"tuned", fmt::format("{} ({} ago)", format_date(entry.date_unix_s), format_age_since(entry.date_unix_s))}};
  std::string text = format_table(rows);

  rows = {{"RANK", "MEDIAN", "95% INTERVAL", "SAMPLES", "CONFIG"}};
  const std::size_t shown = std::min(entry.tried.size(), kShownConfigs);
  for (std::size_t i = 0; i < shown; ++i) {
    const CandidateEvidence& tried = entry.tried[i];
    const bool is_measured = tried.samples > 0;
    rows.push_back({is_measured ? std::to_string(tried.rank) : "-",
                    is_measured ? format_duration_us(tried.median_us) : std::string(to_string(tried.outcome)),
                    is_measured ? interval_text(tried.interval_us) : "", std::to_string(tried.samples),
                    to_string(tried.config), tried.reason});
  }
  text += '\n' + format_table(rows);
  if (shown < entry.tried.size())
    text += fmt::format("and {} more; --json shows them all\n",
                        format_count(static_cast<std::int64_t>(entry.tried.size() - shown), "config"));

  rows = {{"DATE", "MEDIAN", "95% INTERVAL", "MEASURED", "DRIVER", "CONFIG"}};
  for (const PastMeasurement& past : entry.history)
    rows.push_back({format_date(past.date_unix_s), format_duration_us(past.median_us), interval_text(past.interval_us),
                    to_string(past.policy), past.driver.empty() ? "-" : past.driver, to_string(past.config)});
  return text + '\n' + format_table(rows);
}

std::string outcomes_text(const std::vector<MergeOutcome>& outcomes) {
  std::string text;
  std::array<std::int64_t, 4> counts{};
  for (const MergeOutcome& outcome : outcomes) {
    ++counts[static_cast<std::size_t>(outcome.kind)];
    if (outcome.kind == MergeOutcome::Kind::identical) continue;
    text += fmt::format("{}: {}\n", kind_name(outcome.kind), to_string(outcome.offered->key));
    const bool is_replaced = outcome.kind == MergeOutcome::Kind::replaced;
    if (outcome.former)
      text += format_table({{"was", choice_text(*outcome.former)},
                            {is_replaced ? "now" : "offered", choice_text(*outcome.offered)},
                            {"because", outcome.reason}},
                           2);
    else
      text += fmt::format("  {}\n", choice_text(*outcome.offered));
    if (outcome.drift) text += fmt::format("  drift: {}\n", outcome.drift->text);
  }
  return text +
         fmt::format("{} added, {} replaced, {} kept, {} identical\n", counts[0], counts[1], counts[2], counts[3]);
}

}  // namespace kiln::cli
