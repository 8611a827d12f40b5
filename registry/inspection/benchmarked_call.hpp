#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "registry/dispatch/dispatch.hpp"
#include "registry/tuning/addressed_memory.hpp"
#include "registry/tuning/op_timing.hpp"

namespace kiln {

/// Tensors of calls that are made many times, with memory of their own for what the calls write.
struct BenchmarkTensors {
  AddressedCopies addressed;
  std::vector<Tensor> owned;
  std::vector<TensorView> inputs, outputs;
};

/// A call of an op, resolved and ready to be timed. It writes memory of its own: outputs, and copies of the inputs that
/// the op changes and of what lies at addresses. The inputs must outlive it.
class BenchmarkedCall {
 public:
  /// `options` says stream, config and tuning policy. UsageError, CompileError, DeviceError as resolve.
  BenchmarkedCall(std::string_view op, std::span<const TensorView> inputs, const Attributes& attributes,
                  const DispatchOptions& options, MeasuringPolicy policy);

  const PlanReport& report() const noexcept { return op_.report(); }
  /// nullopt where no input selects work.
  const std::optional<SkippedWork>& skipped() const noexcept { return skipped_; }
  /// Microseconds of one call each, in the order taken.
  std::vector<double> samples_us(int count) const { return timing_.samples_us(count); }

 private:
  ResolvedOp op_;
  BenchmarkTensors tensors_;
  std::optional<SkippedWork> skipped_;
  OpTiming timing_;
};

/// A call of an op's definition, on one thread of the CPU, over copies of the inputs.
class BenchmarkedReference {
 public:
  /// UsageError: not_implemented for an op without a reference, else as dispatch_gpu_op.
  BenchmarkedReference(std::string_view op, std::span<const TensorView> inputs, const Attributes& attributes);

  std::vector<double> samples_us(int count) const;

 private:
  const OpSpec& spec_;
  Attributes attributes_;
  BenchmarkTensors tensors_;
};

}  // namespace kiln
