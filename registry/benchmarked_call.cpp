#include "registry/benchmarked_call.hpp"

#include <fmt/format.h>

#include "core/errors.hpp"
#include "registry/registry.hpp"
#include "registry/validation.hpp"
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

BenchmarkTensors make_tensors(const OpSpec& spec, std::span<const TensorView> inputs,
                              std::span<const TensorMeta> outputs, Stream stream, bool copies_all) {
  BenchmarkTensors tensors;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const bool is_changed = input_spec(spec, i).mutated && inputs[i].device == stream.device;
    const bool is_copied = !is_absent(inputs[i]) && (copies_all || is_changed);
    tensors.inputs.push_back(is_copied ? tensors.owned.emplace_back(to_device(inputs[i], stream.device)).view()
                                       : inputs[i]);
  }
  for (const TensorMeta& meta : outputs)
    tensors.outputs.push_back(tensors.owned.emplace_back(empty(meta.shape, meta.dtype, stream)).view());
  return tensors;
}

}  // namespace

BenchmarkedCall::BenchmarkedCall(std::string_view op, std::span<const TensorView> inputs, const Attributes& attributes,
                                 const DispatchOptions& options, MeasuringPolicy policy)
    : op_(resolve(op, inputs, attributes, options)),
      tensors_(make_tensors(Registry::process().get(op), inputs, op_.outputs(), stream_of(inputs, options), false)),
      timing_(op_, tensors_.inputs, tensors_.outputs, stream_of(inputs, options), policy) {}

BenchmarkedReference::BenchmarkedReference(std::string_view op, std::span<const TensorView> inputs,
                                           const Attributes& attributes)
    : spec_(Registry::process().get(op)) {
  if (!spec_.reference) throw_not_implemented(fmt::format("op '{}' has no reference to compare with", spec_.name));
  if (spec_.follows_addresses && stream_of(inputs, {}).device.is_cuda())
    throw_not_implemented(fmt::format(
        "op '{}' has inputs that hold addresses, and its reference, which runs on the CPU, cannot reach those of a GPU",
        spec_.name));
  const std::vector<TensorMeta> outputs = infer_outputs(op, inputs, attributes);
  attributes_ = complete_attributes(spec_, attributes);
  tensors_ = make_tensors(spec_, inputs, outputs, Stream::default_of(Device::cpu()), true);
}

std::vector<double> BenchmarkedReference::samples_us(int count) const {
  return time_us(Stream::default_of(Device::cpu()),
                 [this] { spec_.reference({tensors_.inputs, tensors_.outputs, attributes_}); },
                 {.warmup = 0, .samples = count});
}

}  // namespace kiln
