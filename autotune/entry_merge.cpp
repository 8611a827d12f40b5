#include "autotune/entry_merge.hpp"

#include <fmt/format.h>
#include <string.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

#include "autotune/significant_digits.hpp"

namespace kiln {
namespace {

std::int64_t num_measured(const TuningEntry& entry) {
  return std::ranges::count_if(entry.tried, [](const CandidateEvidence& tried) { return tried.samples > 0; });
}

/// Width of the winner's interval in percent of its median, to two digits: finer differences are chance. Infinite when
/// there is no interval.
double uncertainty_percent(const TuningEntry& entry) {
  const CandidateEvidence* winner = entry.evidence_of(entry.config);
  if (winner == nullptr) return std::numeric_limits<double>::infinity();
  return with_significant_digits(100 * winner->interval_us.width() / winner->median_us, 2);
}

PastMeasurement own_measurement(const TuningEntry& entry, const CandidateEvidence& winner) {
  return {entry.date_unix_s, entry.config, winner.median_us, winner.interval_us, entry.policy, entry.driver};
}

auto order_of(const PastMeasurement& past) {
  return std::tuple(past.date_unix_s, to_string(past.config), past.median_us, past.interval_us.low,
                    past.interval_us.high, past.policy.launch, past.policy.l2, past.driver);
}

}  // namespace

Preference better_evidence(const TuningEntry& first, const TuningEntry& second) {
  // Versions in numerical order of their parts: 13.10 after 13.9.
  if (const int order = ::strverscmp(second.driver.c_str(), first.driver.c_str()); order != 0)
    return {order > 0, fmt::format("a newer driver ({} against {})", order > 0 ? second.driver : first.driver,
                                   order > 0 ? first.driver : second.driver)};
  if (const int order = ::strverscmp(second.compiler.c_str(), first.compiler.c_str()); order != 0)
    return {order > 0, fmt::format("a newer compiler ({} against {})", order > 0 ? second.compiler : first.compiler,
                                   order > 0 ? first.compiler : second.compiler)};
  const std::int64_t first_measured = num_measured(first);
  const std::int64_t second_measured = num_measured(second);
  if (first_measured != second_measured)
    return {second_measured > first_measured,
            fmt::format("more configs measured ({} against {})", std::max(first_measured, second_measured),
                        std::min(first_measured, second_measured))};
  const double first_percent = uncertainty_percent(first);
  const double second_percent = uncertainty_percent(second);
  if (first_percent != second_percent)
    return {second_percent < first_percent,
            fmt::format("a tighter interval ({}% against {}% of the median)", std::min(first_percent, second_percent),
                        std::max(first_percent, second_percent))};
  if (first.date_unix_s != second.date_unix_s)
    return {second.date_unix_s > first.date_unix_s,
            fmt::format("a later date ({} against {})", format_date(std::max(first.date_unix_s, second.date_unix_s)),
                        format_date(std::min(first.date_unix_s, second.date_unix_s)))};
  const std::string first_config = to_string(first.config);
  const std::string second_config = to_string(second.config);
  if (first_config != second_config)
    return {second_config < first_config, "nothing but the order of the configs' names"};
  return {};
}

std::vector<PastMeasurement> merge_histories(const TuningEntry& first, const TuningEntry& second) {
  std::vector<PastMeasurement> history = first.history;
  history.insert(history.end(), second.history.begin(), second.history.end());
  std::ranges::sort(history, {}, order_of);
  const auto repeated = std::ranges::unique(history);
  history.erase(repeated.begin(), repeated.end());
  if (history.size() > kHistoryLength)
    history.erase(history.begin(), history.end() - static_cast<std::ptrdiff_t>(kHistoryLength));
  return history;
}

void add_own_measurement(TuningEntry& entry) {
  const CandidateEvidence* winner = entry.evidence_of(entry.config);
  if (winner == nullptr) return;
  TuningEntry own;
  own.history = {own_measurement(entry, *winner)};
  entry.history = merge_histories(entry, own);
}

std::optional<Drift> drift_between(const TuningEntry& earlier, const TuningEntry& later) {
  const CandidateEvidence* now = later.evidence_of(earlier.config);
  if (now == nullptr || later.date_unix_s <= earlier.date_unix_s) return std::nullopt;
  std::vector<double> medians;
  Interval before{std::numeric_limits<double>::infinity(), 0};
  for (const PastMeasurement& past : earlier.history) {
    if (past.config != earlier.config || past.policy != later.policy) continue;
    medians.push_back(past.median_us);
    before = {std::min(before.low, past.interval_us.low), std::max(before.high, past.interval_us.high)};
  }
  if (medians.empty()) return std::nullopt;
  std::ranges::nth_element(medians, medians.begin() + static_cast<std::ptrdiff_t>(medians.size() / 2));
  const double before_us = medians[medians.size() / 2];
  const bool overlaps = now->interval_us.low <= before.high && before.low <= now->interval_us.high;
  const double change = now->median_us / before_us - 1;
  if (overlaps || std::abs(change) <= kDriftFloor) return std::nullopt;
  return Drift{
      earlier.config, before_us, now->median_us,
      fmt::format("{}: {} took {:.4g} us in {} earlier measurement{}, and now takes {:.4g} us ({:+.1f}%, beyond "
                  "noise){}",
                  to_string(later.key), to_string(earlier.config), before_us, medians.size(),
                  medians.size() == 1 ? "" : "s", now->median_us, 100 * change,
                  earlier.driver == later.driver
                      ? ""
                      : fmt::format("; the driver was {} and is {}", earlier.driver, later.driver))};
}

}  // namespace kiln
