#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/attributes.hpp"
#include "core/tensor.hpp"
#include "ops/op_spec.hpp"
#include "registry/dispatch/dispatch.hpp"
#include "runtime/stream.hpp"
#include "tests/support/op_case.hpp"

namespace kiln::test {

/// A call whose first results, which agree with the reference, are what later ones are held to.
class StressCase : public OpCase {
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

  /// UsageError for an example that the op refuses; InternalError where the first call and the reference do not agree.
  StressCase(const OpSpec& spec, const Example& example, Device device, std::uint64_t seed);

  /// By name, with outputs allocated on `stream`.
  std::vector<Tensor> dispatch(Stream stream) const;
  Binding bind(Stream stream) const;
  /// Empty, or what is wrong with results whose work was enqueued on `stream`; waits for it.
  std::string difference(const std::vector<Tensor>& results, Stream stream) const;

 private:
  std::vector<Tensor> fresh_inputs(Stream stream) const;
};

/// `count` cases of all ops in turn, small enough that a call takes microseconds.
std::vector<StressCase> make_stress_cases(Device device, std::size_t count, std::uint64_t seed);

}  // namespace kiln::test
