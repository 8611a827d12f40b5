#include "registry/tuning/tuning.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <vector>

#include "core/errors.hpp"
#include "registry/plan/device_target.hpp"
#include "registry/plan/registry.hpp"
#include "registry/plan/tuning_scope.hpp"
#include "registry/plan/validation.hpp"

namespace kiln {

TuneReport tune_op(std::string_view name, std::span<const TensorView> inputs, const Attributes& attributes,
                   const TuneOptions& options) {
  const OpSpec& spec = Registry::process().get(name);
  if (!(options.budget_s > 0))
    throw_value_error(fmt::format("budget_s={}; expected a number of seconds above 0", options.budget_s));
  std::vector<const TensorView*> pointers;
  for (const TensorView& input : inputs) pointers.push_back(&input);
  check_inputs(spec, pointers);
  check_one_device(spec, pointers, {});
  const auto on_gpu =
      std::find_if(inputs.begin(), inputs.end(), [](const auto& view) { return view.device.is_cuda(); });
  const Device device = on_gpu != inputs.end() ? on_gpu->device
                        : !inputs.empty()      ? inputs.front().device
                        : options.stream       ? options.stream->device
                                               : Device::cpu();
  const Stream stream = options.stream.value_or(Stream::default_of(device));
  if (stream.device != device)
    throw_type_error(fmt::format("op '{}': the stream is of {}, but the tensors are on {}", spec.name,
                                 to_string(stream.device), to_string(device)));
  const Target target = target_of(device);
  detail::refuse_tuning_in_capture(spec, stream);
  if (inside_tuning())
    throw_value_error(fmt::format(
        "op '{}' cannot be tuned from within a tuning, whose callbacks (progress, a grid) this call came from: tune it "
        "before or after",
        spec.name));
  const std::lock_guard lock(detail::tuning_mutex());
  const TuningScope scope;
  return detail::tune_call(spec, inputs, complete_attributes(spec, attributes), stream, target, options);
}

}  // namespace kiln
