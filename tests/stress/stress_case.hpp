#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/attributes.hpp"
#include "core/tensor.hpp"
#include "ops/op_spec.hpp"
#include "registry/dispatch/dispatch.hpp"
#include "runtime/stream.hpp"

namespace kiln::test {

/// A call with fixed inputs on a device, and what it must give. Shared by all threads, which change nothing of it.
class StressCase {
 public:
  /// One thread's tensors for the call, to be used again and again: inputs that the op changes are its own.
  struct Binding {
    std::vector<Tensor> inputs, outputs;
    ResolvedOp op;
    /// Enqueues the call on `stream`, over outputs that hold something else.
    void run(const StressCase& of, Stream stream) const;
    /// What the call wrote: the outputs, or the inputs that it changes.
    std::vector<Tensor> results(const StressCase& of) const;
  };

  /// Fills inputs from `seed`, makes the call once and takes its results for the expected ones when they agree with the
  /// reference. UsageError for an example that the op refuses; InternalError when they do not agree.
  StressCase(const OpSpec& spec, const Example& example, Device device, std::uint64_t seed);

  /// By name, with outputs allocated on `stream`.
  std::vector<Tensor> dispatch(Stream stream) const;
  Binding bind(Stream stream) const;
  /// Empty, or what is wrong with results whose work was enqueued on `stream`; waits for it.
  std::string difference(const std::vector<Tensor>& results, Stream stream) const;

  const std::string& op() const noexcept { return spec_->name; }

 private:
  std::vector<Tensor> fresh_inputs(Stream stream) const;
  std::vector<Tensor> changed(const std::vector<Tensor>& inputs) const;

  const OpSpec* spec_;
  Attributes attributes_;
  std::vector<Tensor> inputs_;
  std::vector<Tensor> expected_;  ///< on the CPU
};

/// `count` cases of all ops in turn, small enough that a call takes microseconds.
std::vector<StressCase> make_stress_cases(Device device, std::size_t count, std::uint64_t seed);

}  // namespace kiln::test
