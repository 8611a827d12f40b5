#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "ops/op_spec.hpp"
#include "runtime/stream_handle.hpp"

namespace kiln {

/// One call of an op that was found to be legal, with all that follows from its inputs and attributes. It is made once,
/// by validated_call, and nothing that takes it looks the op up, completes attributes or infers outputs again. Never
/// changed, and shared among threads. The memory of its tensors is borrowed.
struct Call {
  const OpSpec* spec = nullptr;
  std::vector<TensorView> inputs = {};   ///< where one is left out, Tensor{}
  LeftOut left_out = {};                 ///< which of them
  std::vector<TensorView> outputs = {};  ///< those that were given, else dense views without data
  bool makes_outputs = true;             ///< none were given
  Attributes attributes = {};            ///< complete
  std::vector<TensorMeta> metas = {};    ///< of the outputs
  Device device = {};
  std::optional<Stream> stream =
      {};  ///< of `device`; unset for a call that is only looked at, for which no device is needed

  /// The spec of input number `i`; a repeated one is the last.
  const InputSpec& input_spec(std::size_t i) const;
  /// nullptr for an optional input that is left out.
  const TensorView* input(std::size_t i) const;
  /// Empty where the call makes its outputs.
  std::span<const TensorView> given_outputs() const noexcept;
  /// What the functions of the spec take. It refers to this call.
  OpCall seen_by_spec() const;
  /// The call over other memory, of the same metadata; nothing is checked again.
  Call over(std::span<const TensorView> other_inputs, std::span<const TensorView> other_outputs) const;
};

/// What says beside inputs and attributes which call it is.
struct CallOptions {
  std::span<const TensorView> outputs = {};  ///< empty: the call makes them
  std::optional<Stream> stream = {};         ///< unset: the default one of the tensors' device
  /// Whether there is memory behind the tensors: addresses are checked, and memory that tensors share.
  bool has_memory = false;
  /// The call will not be made, and is looked at as one on this device, wherever its tensors are.
  std::optional<Device> seen_on = {};
};

/// The call of `spec` with these inputs and attributes. UsageError (value, type or not_implemented), naming the
/// argument, its value and what was expected, for one that the op does not take.
Call validated_call(const OpSpec& spec, const CallInputs& inputs, const Attributes& attributes = {},
                    const CallOptions& options = {});
/// Of inputs that say themselves which of them are left out, with or without memory.
Call validated_call(const OpSpec& spec, std::span<const std::optional<TensorView>> inputs,
                    const Attributes& attributes = {}, const CallOptions& options = {});

namespace detail {
[[noreturn]] void throw_too_many_tensors(std::string_view op, std::size_t num_inputs, std::size_t num_outputs);
[[noreturn]] void throw_other_stream(std::string_view op, Stream stream, Device device);
[[noreturn]] void throw_no_device(std::string_view op);
}  // namespace detail

/// UsageError(value) for more tensors than any op has.
inline void check_num_tensors(std::string_view op, std::size_t num_inputs, std::size_t num_outputs) {
  if (num_inputs + num_outputs > kMaxTensors) detail::throw_too_many_tensors(op, num_inputs, num_outputs);
}

/// UsageError(type) for a stream of another device than the tensors'.
inline void check_stream(std::string_view op, Stream stream, Device device) {
  if (stream.device != device) detail::throw_other_stream(op, stream, device);
}

/// Where a call runs: the device of its first tensor, or where that lies in host memory that a GPU may read, the GPU.
/// UsageError(value) where nothing says so.
inline Device device_of(std::string_view op, std::span<const TensorView* const> inputs,
                        std::span<const TensorView* const> outputs, const std::optional<Stream>& stream) {
  for (const TensorView* input : inputs)
    if (input->device.is_cuda()) return input->device;
  for (const TensorView* output : outputs)
    if (output->device.is_cuda()) return output->device;
  if (!inputs.empty()) return inputs.front()->device;
  if (!outputs.empty()) return outputs.front()->device;
  if (!stream.has_value()) detail::throw_no_device(op);
  return stream->device;
}

}  // namespace kiln
