#pragma once

#include <vector>

#include "core/tensor.hpp"
#include "registry/plan/call.hpp"
#include "registry/tuning/addressed_memory.hpp"
#include "runtime/stream.hpp"

namespace kiln {

/// A dense copy in new memory, in the order of `stream`.
Tensor dense_copy(const TensorView& view, Stream stream);

/// A call that is made many times: its inputs that the op changes, and what lies at their addresses, are replaced by
/// copies, which `restore` brings back to what they were.
class ScratchCall {
 public:
  /// UsageError: not_implemented for an input that the op changes and that is not dense or not on the call's device,
  /// value for a null address.
  explicit ScratchCall(const Call& call);

  /// Over the copies, and dense outputs of its own.
  const Call& call() const noexcept { return call_; }
  /// What a call leaves behind: changed inputs, outputs, and what lies at addresses.
  const std::vector<Tensor>& results() const noexcept { return results_; }

  void restore() const;
  /// Fills the outputs with a byte that no op writes everywhere.
  void poison_outputs() const;

 private:
  Call call_;
  AddressedCopies addressed_;
  std::vector<TensorView> originals_;
  std::vector<Tensor> results_;
};

}  // namespace kiln
