#include "cli/earlier_tuning.hpp"

#include <fmt/format.h>

#include <ctime>
#include <vector>

#include "autotune/database.hpp"
#include "cli/call_inputs.hpp"
#include "core/quantity.hpp"
#include "registry/plan/choice.hpp"
#include "registry/plan/device_target.hpp"
#include "registry/plan/tuned_config.hpp"
#include "registry/plan/validation.hpp"
#include "registry/tuning/selected_entries.hpp"

namespace kiln::cli {
namespace {

constexpr std::int64_t kFinishedSeconds = 24 * 60 * 60;

}  // namespace

std::optional<TuneReport> earlier_tuning(const OpSpec& spec, std::span<const TensorView> inputs,
                                         const Attributes& attributes, Device device, const MeasuringPolicy& policy) {
  const Attributes complete = complete_attributes(spec, attributes);
  const std::vector<TensorView> outputs = placeholder_views(spec.infer(inputs, complete), device);
  const OpCall call{inputs, outputs, complete, processors_of(device)};
  const Target target = target_of(device);
  const Variant& variant = *choose(spec, call, target, nullptr).variant;
  const auto entry = TuningDatabase::process().find(tuning_key(spec, variant, call, device, target));
  if (entry == nullptr || entry->policy != policy) return std::nullopt;
  const std::int64_t age_s = std::time(nullptr) - entry->date_unix_s;
  if (age_s > kFinishedSeconds || !entry->complete) return std::nullopt;

  TuneReport report;
  report.entry = *entry;
  if (spec.cost) report.cost = spec.cost(call);
  report.skipped = skipped_work(spec, inputs, complete);
  report.result.complete = true;
  report.result.verdict = fmt::format("tuned {} ago; --retune measures again", format_age_s(age_s));
  report.result.candidates = entry->tried;
  for (const CandidateEvidence& evidence : entry->tried) report.result.samples += evidence.samples;
  return report;
}

}  // namespace kiln::cli
