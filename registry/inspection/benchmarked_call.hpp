#pragma once

#include <optional>
#include <vector>

#include "registry/dispatch/dispatch.hpp"
#include "registry/plan/call.hpp"
#include "registry/tuning/addressed_memory.hpp"
#include "registry/tuning/op_timing.hpp"

namespace kiln {

/// A call that is made many times, with memory of its own for what it writes.
struct RepeatedCall {
  AddressedCopies addressed;
  std::vector<Tensor> owned;
  Call call;
};

/// A call of an op, resolved and ready to be timed. It writes memory of its own: outputs, and copies of the inputs that
/// the op changes and of what lies at addresses. The inputs must outlive it.
class BenchmarkedCall {
 public:
  /// `options` says config and tuning policy. UsageError, CompileError, DeviceError as resolve.
  BenchmarkedCall(const Call& call, const DispatchOptions& options, MeasuringPolicy policy);

  const PlanReport& report() const noexcept { return op_.report(); }
  /// nullopt where no input selects work.
  const std::optional<SkippedWork>& skipped() const noexcept { return skipped_; }
  /// Microseconds of one call each, in the order taken.
  std::vector<double> samples_us(int count) const { return timing_.samples_us(count); }

 private:
  ResolvedOp op_;
  RepeatedCall repeated_;
  std::optional<SkippedWork> skipped_;
  OpTiming timing_;
};

/// A call of an op's definition, on one thread of the CPU, over copies of the inputs.
class BenchmarkedReference {
 public:
  /// UsageError(not_implemented) for an op without a reference.
  explicit BenchmarkedReference(const Call& call);

  std::vector<double> samples_us(int count) const;

 private:
  RepeatedCall repeated_;
};

}  // namespace kiln
