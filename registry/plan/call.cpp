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
  return left_out[i] ? nullptr : &inputs[i];
}

std::span<const TensorView> Call::given_outputs() const noexcept {
  return makes_outputs ? std::span<const TensorView>() : std::span(outputs);
}

OpCall Call::seen_by_spec() const {
  return {{inputs, left_out},
          outputs,
          attributes,
          stream.has_value() ? processors_of(device) : 0,
          stream.has_value() ? cluster_processors_of(device) : 0};
}

Call Call::over(std::span<const TensorView> other_inputs, std::span<const TensorView> other_outputs) const {
  Call other = *this;
  other.inputs.assign(other_inputs.begin(), other_inputs.end());
  other.outputs.assign(other_outputs.begin(), other_outputs.end());
  return other;
}

Call validated_call(const OpSpec& spec, std::span<const std::optional<TensorView>> inputs, const Attributes& attributes,
                    const CallOptions& options) {
  check_num_tensors(spec.name, inputs.size(), options.outputs.size());
  std::vector<TensorView> views;
  LeftOut left_out;
  for (const std::optional<TensorView>& input : inputs) {
    left_out[views.size()] = !input.has_value();
    views.push_back(input.value_or(TensorView{}));
  }
  check_left_out(spec, left_out);
  return validated_call(spec, CallInputs(views, left_out), attributes, options);
}

Call validated_call(const OpSpec& spec, const CallInputs& given, const Attributes& attributes,
                    const CallOptions& options) {
  check_num_tensors(spec.name, given.size(), options.outputs.size());
  Call call{.spec = &spec, .makes_outputs = options.outputs.empty()};
  call.inputs.assign(given.begin(), given.end());
  call.outputs.assign(options.outputs.begin(), options.outputs.end());
  for (std::size_t i = 0; i < given.size() && !spec.inputs.empty(); ++i)
    call.left_out[i] =
        given.left_out()[i] && call.input_spec(i).optional;  // others are scalars of the CPU without memory
  const CallInputs inputs(call.inputs, call.left_out);

  check_inputs(spec, inputs);
  if (!options.seen_on) check_one_device(spec, inputs, call.outputs);
  call.attributes = complete_attributes(spec, attributes);
  call.metas = spec.infer(inputs, call.attributes);
  if (call.inputs.size() + call.metas.size() > kMaxTensors)
    throw InternalError("op '" + spec.name + "' has more tensors than a call may have");
  if (!call.makes_outputs) check_outputs(spec, call.outputs, call.metas);

  std::array<const TensorView*, kMaxTensors> views;
  std::array<MemoryExtent, kMaxTensors> extents;
  std::size_t count = 0;
  for (const TensorView& output : call.outputs) views[count++] = &output;
  for (const TensorView& input : call.inputs) views[count++] = &input;
  const std::span<const TensorView* const> all(views.data(), count);
  const auto output_views = all.first(call.outputs.size()), input_views = all.subspan(call.outputs.size());
  if (options.has_memory) {
    for (std::size_t i = 0; i < count; ++i)
      if (i < output_views.size() || !call.left_out[i - output_views.size()]) extents[i] = memory_extent(*views[i]);
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
  // An unknown op, or one that takes inputs, is the likelier mistake.
  check_inputs(Registry::process().get(op), CallInputs());
  throw_value_error("op '" + std::string(op) +
                    "' was called with no input, output or stream, so there is no device to run it on");
}

}  // namespace detail

}  // namespace kiln
