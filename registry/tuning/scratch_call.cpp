#include "registry/tuning/scratch_call.hpp"

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>

#include "core/errors.hpp"
#include "registry/plan/numbered_tensors.hpp"
#include "runtime/memory.hpp"

namespace kiln {
namespace {

/// NaN in every type of floats, which no result near 0 passes for.
constexpr std::uint8_t kPoison = 0xFF;

}  // namespace

Tensor dense_copy(const TensorView& view, Stream stream) {
  if (!view.is_contiguous()) return to_device(view, view.device);
  Tensor copied = empty(view.shape, view.dtype, stream);
  copy(copied, view, stream);
  return copied;
}

ScratchCall::ScratchCall(const Call& call) : call_(call), addressed_(copy_addressed(call, call.device)) {
  const Stream stream = *call.stream;
  call_.inputs = addressed_.inputs;
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    const TensorView* const input = call.input(i);
    if (input == nullptr || !call.input_spec(i).mutated || call.input_spec(i).points_to) continue;
    if (!input->is_contiguous() || input->device != call.device)
      throw_not_implemented(
          fmt::format("op '{}' changes {}, and tuning does so on a copy, which it cannot make of a tensor that is "
                      "not dense or not "
                      "on {}: {}",
                      call.spec->name, tensor_label(*call.spec, i, 0), to_string(call.device), describe(*input)));
    originals_.push_back(*input);
    results_.push_back(dense_copy(*input, stream));
    call_.inputs[i] = results_.back();
  }
  call_.makes_outputs = true;
  call_.outputs.clear();
  for (const TensorMeta& meta : call.metas) {
    results_.push_back(empty(meta.shape, meta.dtype, stream));
    call_.outputs.push_back(results_.back());
  }
  results_.insert(results_.end(), addressed_.copies.begin(), addressed_.copies.end());
}

void ScratchCall::restore() const {
  for (std::size_t i = 0; i < originals_.size(); ++i) copy(results_[i], originals_[i], *call_.stream);
  addressed_.restore(*call_.stream);
}

void ScratchCall::poison_outputs() const {
  for (const TensorView& output : call_.outputs) memset_bytes(output, kPoison, *call_.stream);
}

}  // namespace kiln
