#include "registry/tuning/scratch_call.hpp"

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>

#include "core/errors.hpp"
#include "registry/plan/numbered_tensors.hpp"
#include "runtime/memory.hpp"

namespace kiln {
namespace {

constexpr std::uint8_t kPoison = 0xA5;

}  // namespace

Tensor dense_copy(const TensorView& view, Stream stream) {
  if (!view.is_contiguous()) return to_device(view, view.device);
  Tensor copied = empty(view.shape, view.dtype, stream);
  copy(copied, view, stream);
  return copied;
}

ScratchCall::ScratchCall(const OpSpec& spec, std::span<const TensorView> inputs, const Attributes& attributes,
                         std::span<const TensorMeta> outputs, Stream stream)
    : stream_(stream), addressed_(copy_addressed(spec, inputs, attributes, stream.device)), inputs_(addressed_.inputs) {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!input_spec(spec, i).mutated || input_spec(spec, i).points_to || is_absent(inputs[i])) continue;
    if (!inputs[i].is_contiguous() || inputs[i].device != stream.device)
      throw_not_implemented(
          fmt::format("op '{}' changes {}, and tuning does so on a copy, which it cannot make of a tensor that is "
                      "not dense or not "
                      "on {}: {}",
                      spec.name, tensor_label(spec, i, 0), to_string(stream.device), describe(inputs[i])));
    originals_.push_back(inputs[i]);
    results_.push_back(dense_copy(inputs[i], stream));
    inputs_[i] = results_.back();
  }
  for (const TensorMeta& meta : outputs) {
    results_.push_back(empty(meta.shape, meta.dtype, stream));
    outputs_.push_back(results_.back());
  }
  results_.insert(results_.end(), addressed_.copies.begin(), addressed_.copies.end());
}

void ScratchCall::restore() const {
  for (std::size_t i = 0; i < originals_.size(); ++i) copy(results_[i], originals_[i], stream_);
  addressed_.restore(stream_);
}

void ScratchCall::poison_outputs() const {
  for (const TensorView& output : outputs_) memset_bytes(output, kPoison, stream_);
}

}  // namespace kiln
