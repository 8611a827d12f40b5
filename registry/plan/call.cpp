#include "registry/plan/call.hpp"

#include <array>
#include <string>

#include "core/errors.hpp"
#include "registry/plan/device_target.hpp"
#include "registry/plan/memory_overlap.hpp"
#include "registry/plan/numbered_tensors.hpp"
#include "registry/plan/registry.hpp"
#include "registry/plan/validation.hpp"

namespace kiln {

const InputSpec& Call::input_spec(std::size_t i) const {
  return kiln::input_spec(*spec, i);
}

const TensorView* Call::input(std::size_t i) const {
  return is_absent(inputs[i]) && input_spec(i).optional ? nullptr : &inputs[i];
}

std::span<const TensorView> Call::given_outputs() const noexcept {
  return makes_outputs ? std::span<const TensorView>() : std::span(outputs);
}

OpCall Call::seen_by_spec() const {
  return {inputs, outputs, attributes, stream.has_value() ? processors_of(device) : 0};
}

Call Call::over(std::span<const TensorView> other_inputs, std::span<const TensorView> other_outputs) const {
  Call other{.spec = spec,
             .makes_outputs = makes_outputs,
             .attributes = attributes,
             .metas = metas,
             .device = device,
             .stream = stream};
  other.inputs.assign(other_inputs.begin(), other_inputs.end());
  other.outputs.assign(other_outputs.begin(), other_outputs.end());
  return other;
}

Call validated_call(const OpSpec& spec, std::span<const TensorView> inputs, const Attributes& attributes,
                    const CallOptions& options) {
  check_num_tensors(spec.name, inputs.size(), options.outputs.size());
  std::array<const TensorView*, kMaxTensors> views;
  std::size_t count = 0;
  for (const TensorView& output : options.outputs) views[count++] = &output;
  for (const TensorView& input : inputs) views[count++] = &input;
  const std::span<const TensorView* const> all(views.data(), count);
  const auto output_views = all.first(options.outputs.size()), input_views = all.subspan(options.outputs.size());

  check_inputs(spec, input_views);
  if (!options.seen_on) check_one_device(spec, input_views, output_views);
  Call call{.spec = &spec, .makes_outputs = output_views.empty(), .attributes = complete_attributes(spec, attributes)};
  call.inputs.assign(inputs.begin(), inputs.end());
  call.outputs.assign(options.outputs.begin(), options.outputs.end());
  call.metas = spec.infer(call.inputs, call.attributes);
  if (inputs.size() + call.metas.size() > kMaxTensors)
    throw InternalError("op '" + spec.name + "' has more tensors than a call may have");
  if (!call.makes_outputs) check_outputs(spec, output_views, call.metas);
  if (options.has_memory) {
    std::array<MemoryExtent, kMaxTensors> extents;
    for (std::size_t i = 0; i < count; ++i) {
      const bool is_left_out = i >= output_views.size() && call.input(i - output_views.size()) == nullptr;
      extents[i] = is_left_out ? MemoryExtent{} : memory_extent(*views[i]);
    }
    check_memory(spec, all, static_cast<int>(output_views.size()), extents);
  }
  if (options.seen_on) {
    call.device = *options.seen_on;
  } else {
    call.device = device_of(spec.name, input_views, output_views, options.stream);
    call.stream = options.stream.value_or(Stream::default_of(call.device));
    check_stream(spec.name, *call.stream, call.device);
  }
  if (call.makes_outputs)
    for (const TensorMeta& meta : call.metas)
      call.outputs.push_back(dense_view(nullptr, meta.dtype, meta.shape, call.device));
  return call;
}

namespace detail {

void throw_too_many_tensors(std::string_view op, std::size_t num_inputs, std::size_t num_outputs) {
  throw_value_error("op '" + std::string(op) + "' was given " + std::to_string(num_inputs) + " inputs and " +
                    std::to_string(num_outputs) + " outputs; a call has at most " + std::to_string(kMaxTensors) +
                    " tensors");
}

void throw_other_stream(std::string_view op, Stream stream, Device device) {
  throw_type_error("op '" + std::string(op) + "': the stream is of " + to_string(stream.device) +
                   ", but the tensors are on " + to_string(device));
}

void throw_no_device(std::string_view op) {
  check_inputs(Registry::process().get(op), {});  // an unknown op, or one that takes inputs, is the likelier mistake
  throw_value_error("op '" + std::string(op) +
                    "' was called with no input, output or stream, so there is no device to run it on");
}

}  // namespace detail

}  // namespace kiln
