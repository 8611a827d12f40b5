#include "registry/inspection/benchmarked_call.hpp"

#include <fmt/format.h>

#include "core/errors.hpp"
#include "registry/plan/numbered_tensors.hpp"
#include "registry/plan/registry.hpp"
#include "registry/plan/validation.hpp"
#include "registry/tuning/selected_entries.hpp"
#include "runtime/event_timer.hpp"
#include "runtime/memory.hpp"

namespace kiln {
namespace {

/// As resolve takes it when the options leave it open.
Stream stream_of(std::span<const TensorView> inputs, const DispatchOptions& options) {
  if (options.stream) return *options.stream;
  for (const TensorView& input : inputs)
    if (input.device.is_cuda()) return Stream::default_of(input.device);
  return Stream::default_of(Device::cpu());
}

BenchmarkTensors make_tensors(const OpSpec& spec, std::span<const TensorView> inputs, const Attributes& attributes,
                              std::span<const TensorMeta> outputs, Stream stream, bool copies_all) {
  BenchmarkTensors tensors;
  tensors.addressed = copy_addressed(spec, inputs, attributes, stream.device);
  tensors.inputs = tensors.addressed.inputs;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const InputSpec& input = input_spec(spec, i);
    if (is_absent(inputs[i]) || input.points_to) continue;
    if (copies_all || (input.mutated && inputs[i].device == stream.device))
      tensors.inputs[i] = tensors.owned.emplace_back(to_device(inputs[i], stream.device));
  }
  for (const TensorMeta& meta : outputs)
    tensors.outputs.push_back(tensors.owned.emplace_back(empty(meta.shape, meta.dtype, stream)).view());
  return tensors;
}

}  // namespace

BenchmarkedCall::BenchmarkedCall(std::string_view op, std::span<const TensorView> inputs, const Attributes& attributes,
                                 const DispatchOptions& options, MeasuringPolicy policy)
    : op_(resolve(op, inputs, attributes, options)),
      tensors_(make_tensors(Registry::process().get(op), inputs,
                            complete_attributes(Registry::process().get(op), attributes), op_.outputs(),
                            stream_of(inputs, options), false)),
      skipped_(skipped_work(Registry::process().get(op), inputs,
                            complete_attributes(Registry::process().get(op), attributes))),
      timing_(op_, tensors_.inputs, tensors_.outputs, stream_of(inputs, options), policy) {}

BenchmarkedReference::BenchmarkedReference(std::string_view op, std::span<const TensorView> inputs,
                                           const Attributes& attributes)
    : spec_(Registry::process().get(op)) {
  if (!spec_.reference) throw_not_implemented(fmt::format("op '{}' has no reference to compare with", spec_.name));
  const std::vector<TensorMeta> outputs = infer_outputs(op, inputs, attributes);
  attributes_ = complete_attributes(spec_, attributes);
  tensors_ = make_tensors(spec_, inputs, attributes_, outputs, Stream::default_of(Device::cpu()), true);
}

std::vector<double> BenchmarkedReference::samples_us(int count) const {
  return time_us(Stream::default_of(Device::cpu()),
                 [this] { spec_.reference({tensors_.inputs, tensors_.outputs, attributes_}); },
                 {.warmup = 0, .samples = count});
}

}  // namespace kiln
