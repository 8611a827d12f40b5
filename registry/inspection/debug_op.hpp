#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "registry/dispatch/dispatch.hpp"
#include "registry/inspection/comparison.hpp"
#include "registry/inspection/tensor_statistics.hpp"
#include "runtime/memory_usage.hpp"

namespace kiln {

/// A tensor of a call that is being debugged.
struct DebuggedTensor {
  std::string name;                        ///< in the op's spec
  bool is_absent = false;                  ///< an optional input that was left out; nothing else is set then
  bool is_changed = false;                 ///< an input that the op changes
  TensorView view;                         ///< its address is that of the call; what was there may be gone
  std::int64_t alignment_bytes = 1;        ///< the largest power of two that divides the address, up to 4096
  std::optional<TensorStatistics> before;  ///< of inputs
  std::optional<TensorStatistics> after;   ///< of outputs and changed inputs, unless the call failed
};

/// How one result compares with the op's reference.
struct DebuggedResult {
  std::string name;
  DType dtype = DType::f32;
  Dims shape;
  Tolerance tolerance;
  std::optional<Comparison> comparison;
  std::string why_not;  ///< why there is no comparison
};

/// What debug_op found out. `error` says what failed; what was found by then is there.
struct DebugReport {
  std::string op;
  Attributes attributes;  ///< with their defaults
  Device device;
  std::vector<DebuggedTensor> inputs, outputs;
  /// What the call returned: the outputs, or the inputs it changed. Empty when it failed.
  std::vector<Tensor> results;

  bool was_planned = false;        ///< this process had made such a call before
  std::optional<PlanReport> plan;  ///< compile and load times are those of when it was planned
  std::optional<double> first_us;  ///< the call itself: planning, allocation, kernels, and the wait for them
  std::optional<double> warm_us;   ///< the median of later calls, over memory of their own
  int warm_calls = 0;
  std::optional<SkippedWork> skipped;  ///< of the call's work; nullopt where no input selects any
  std::string no_warm_time;            ///< why `warm_us` is not there, where nothing failed
  std::vector<DebuggedResult> comparisons;
  std::optional<MemoryUsage> memory_before, memory_after;
  std::string error;

  /// Nothing failed, and no comparison found a wrong element.
  bool ok() const;
};

/// Runs a call as dispatch_gpu_op does, and looks at everything around it: what goes in and comes out, how long it
/// takes, which kernels it runs, how its results compare with the op's reference in double precision, and memory. Slow
/// by design: it waits for the device again and again, and reads every element on the CPU.
///
/// The caller's tensors are left as one call leaves them: later calls, for the warm time, work on copies. Where there
/// can be none (memory that is short) there are no later calls. UsageErrors pass through, as dispatch_gpu_op's, for a
/// null address, and for a stream that is being captured. What fails otherwise (a compile, a launch, the
/// device) does not: it is in the report. After a fault of the device that report is the last that the process can tell
/// of it.
DebugReport debug_op(std::string_view name, std::span<const Tensor> inputs, const Attributes& attributes = {},
                     const DispatchOptions& options = {});
inline DebugReport debug_op(std::string_view name, std::initializer_list<Tensor> inputs,
                            const Attributes& attributes = {}, const DispatchOptions& options = {}) {
  return debug_op(name, std::span(inputs.begin(), inputs.size()), attributes, options);
}

/// For people: a few aligned lines for each tensor, then time, plan, comparison and memory.
std::string to_string(const DebugReport& report);

}  // namespace kiln
