#include "registry/tuning/tuning.hpp"

#include <fmt/format.h>

#include <mutex>
#include <optional>

#include "core/errors.hpp"
#include "registry/plan/call.hpp"
#include "registry/plan/device_target.hpp"
#include "registry/plan/registry.hpp"
#include "registry/plan/tuning_scope.hpp"

namespace kiln {

TuneReport tune_op(std::string_view name, std::span<const TensorView> inputs, const Attributes& attributes,
                   const TuneOptions& options) {
  std::optional<Stream> stream = options.stream;
  if (inputs.empty() && !stream) stream = Stream::default_of(Device::cpu());
  return tune_op(validated_call(Registry::process().get(name), inputs, attributes, {.stream = stream}), options);
}

TuneReport tune_op(const Call& call, const TuneOptions& options) {
  if (!(options.budget_s > 0))
    throw_value_error(fmt::format("budget_s={}; expected a number of seconds above 0", options.budget_s));
  const Target target = target_of(call.device);
  detail::refuse_tuning_in_capture(call);
  if (inside_tuning())
    throw_value_error(fmt::format(
        "op '{}' cannot be tuned from within a tuning, whose callbacks (progress, a grid) this call came from: tune it "
        "before or after",
        call.spec->name));
  const std::lock_guard lock(detail::tuning_mutex());
  const TuningScope scope;
  return detail::tune_call(call, target, options);
}

}  // namespace kiln
