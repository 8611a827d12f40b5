#pragma once

#include <span>
#include <vector>

#include "core/attributes.hpp"
#include "core/tensor.hpp"
#include "ops/op_spec.hpp"
#include "registry/tuning/addressed_memory.hpp"
#include "runtime/stream.hpp"

namespace kiln {

/// A dense copy in new memory, in the order of `stream`.
Tensor dense_copy(const TensorView& view, Stream stream);

/// The tensors of a call that is made many times: `inputs` with those that the op changes, and what lies at their
/// addresses, replaced by copies, which `restore` brings back to what they were.
class ScratchCall {
 public:
  /// `attributes` are complete. UsageError: not_implemented for an input that the op changes and that is not dense or
  /// not on the stream's device, value for a null address.
  ScratchCall(const OpSpec& spec, std::span<const TensorView> inputs, const Attributes& attributes,
              std::span<const TensorMeta> outputs, Stream stream);

  std::span<const TensorView> inputs() const noexcept { return inputs_; }
  std::span<const TensorView> outputs() const noexcept { return outputs_; }
  /// What a call leaves behind: changed inputs, outputs, and what lies at addresses.
  const std::vector<Tensor>& results() const noexcept { return results_; }

  void restore() const;
  /// Fills the outputs with a byte that no op writes everywhere.
  void poison_outputs() const;

 private:
  Stream stream_;
  AddressedCopies addressed_;
  std::vector<TensorView> inputs_, outputs_, originals_;
  std::vector<Tensor> results_;
};

}  // namespace kiln
