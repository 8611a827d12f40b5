#include "cli/earlier_tuning.hpp"

#include <fmt/format.h>

#include <ctime>

#include "autotune/database.hpp"
#include "core/quantity.hpp"
#include "registry/plan/choice.hpp"
#include "registry/plan/device_target.hpp"
#include "registry/plan/tuned_config.hpp"
#include "registry/tuning/selected_entries.hpp"

namespace kiln::cli {
namespace {

constexpr std::int64_t kFinishedSeconds = 24 * 60 * 60;

}  // namespace

std::optional<TuneReport> earlier_tuning(const Call& call, const MeasuringPolicy& policy) {
  const Target target = target_of(call.device);
  const Variant& variant = *choose(call, target, nullptr).variant;
  const auto entry = TuningDatabase::process().find(tuning_key(call, variant, target));
  if (entry == nullptr || entry->policy != policy) return std::nullopt;
  const std::int64_t age_s = std::time(nullptr) - entry->date_unix_s;
  if (age_s > kFinishedSeconds || !entry->complete) return std::nullopt;

  TuneReport report;
  report.entry = *entry;
  if (call.spec->cost) report.cost = call.spec->cost(call.seen_by_spec());
  report.skipped = skipped_work(call);
  report.result.ended = report.result.complete = true;
  report.result.verdict = fmt::format("tuned {} ago; --retune measures again", format_age_s(age_s));
  report.result.candidates = entry->tried;
  for (const CandidateEvidence& evidence : entry->tried) report.result.samples += evidence.samples;
  return report;
}

}  // namespace kiln::cli
