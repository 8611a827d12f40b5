#pragma once

#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ops/op_spec.hpp"
#include "registry/plan/plan_report.hpp"
#include "registry/plan/tuning_policy.hpp"
#include "runtime/kernel.hpp"
#include "runtime/memory.hpp"

namespace kiln {

struct DispatchOptions {
  std::span<const Tensor> outputs = {};     ///< empty: allocated on the stream
  std::optional<Stream> stream = {};        ///< unset: the device's default stream
  const Config* config = nullptr;           ///< tunables it leaves out: the spec's default
  std::optional<TuningPolicy> tuning = {};  ///< where the config comes from when none is given; unset: the process's
  /// Makes the outputs that are not given, in order: dense memory of this dtype and shape on the stream's device, ready
  /// for work on the stream. The tensor stays where it is until the call has returned. Unset: `empty`. The outputs of a
  /// call live with whoever allocates for the caller (torch's caching allocator).
  const std::function<const Tensor&(const TensorMeta&, Stream)>* allocate = nullptr;
  /// Called before the first thing of the call that may take long or wait for somebody: making a plan, or else the
  /// launch, unless the plan is brief (Plan::is_brief). A caller with a lock of its own (Python's) lets go of it there,
  /// behind `allocate` where the plan is known.
  const std::function<void()>* before_work = nullptr;
  /// Lets the call's kernels start while the work before them on the stream still runs (programmatic dependent launch):
  /// they wait for its end themselves, so results are those of any call. Takes a GPU of sm_90 or newer with a driver of
  /// CUDA 12.3 or newer; elsewhere, and for kernels of users, it changes nothing.
  bool overlap_previous = false;
};

struct Call;
struct Plan;

/// An op bound to shapes, strides, dtypes, attributes, device and config: calling it looks nothing up, takes no lock
/// and allocates nothing.
class ResolvedOp {
 public:
  /// Launches on `stream`. Tensors must have the metadata the op was resolved with (UsageError(value) naming the tensor
  /// otherwise); their addresses may differ, and are checked as dispatch_gpu_op checks them. While the stream is being
  /// captured their memory becomes the graph's to use, and the caller's to keep.
  void operator()(std::span<const TensorView> inputs, std::span<const TensorView> outputs, Stream stream) const;
  void operator()(std::initializer_list<TensorView> inputs, std::initializer_list<TensorView> outputs,
                  Stream stream) const {
    (*this)(std::span(inputs.begin(), inputs.size()), std::span(outputs.begin(), outputs.size()), stream);
  }
  const PlanReport& report() const noexcept;
  /// Shapes and dtypes of the outputs, for allocating them.
  const std::vector<TensorMeta>& outputs() const noexcept;

 private:
  friend ResolvedOp resolve(std::string_view, std::span<const TensorView>, const Attributes&, const DispatchOptions&);
  friend ResolvedOp resolve(const Call&, const DispatchOptions&);
  explicit ResolvedOp(std::shared_ptr<const Plan> plan) : plan_(std::move(plan)) {}
  std::shared_ptr<const Plan> plan_;
};

/// Runs op `name` on the inputs' device (CPU tensors on the CPU target) and returns its first output, or the first
/// input that the op changes in place; all of them with dispatch_gpu_op_all. Order: validate -> plan cache -> (on a
/// miss) config -> artifact -> load -> launch. UsageError, CompileError or DeviceError; nothing has run then. During
/// stream capture a call whose kernels are loaded is captured and any other refused with UsageError(value); the graph
/// that kiln::capture makes holds the tensors' owners.
Tensor dispatch_gpu_op(std::string_view name, std::span<const Tensor> inputs, const Attributes& attributes = {},
                       const DispatchOptions& options = {});
inline Tensor dispatch_gpu_op(std::string_view name, std::initializer_list<Tensor> inputs,
                              const Attributes& attributes = {}, const DispatchOptions& options = {}) {
  return dispatch_gpu_op(name, std::span(inputs.begin(), inputs.size()), attributes, options);
}
std::vector<Tensor> dispatch_gpu_op_all(std::string_view name, std::span<const Tensor> inputs,
                                        const Attributes& attributes = {}, const DispatchOptions& options = {});
/// dispatch_gpu_op for who has the results already: in `options.outputs`, from `options.allocate`, or as inputs that
/// the op changes. InternalError where an output has neither.
void run_gpu_op(std::string_view name, std::span<const Tensor> inputs, const Attributes& attributes,
                const DispatchOptions& options);

/// Compiles and loads what a call with these inputs needs, and returns it bound. `options.outputs`, where given, fixes
/// the outputs' strides; dense otherwise.
ResolvedOp resolve(std::string_view name, std::span<const TensorView> inputs, const Attributes& attributes = {},
                   const DispatchOptions& options = {});
inline ResolvedOp resolve(std::string_view name, std::initializer_list<TensorView> inputs,
                          const Attributes& attributes = {}, const DispatchOptions& options = {}) {
  return resolve(name, std::span(inputs.begin(), inputs.size()), attributes, options);
}
/// The same of a call that was validated; its outputs and stream take the place of those of `options`.
ResolvedOp resolve(const Call& call, const DispatchOptions& options = {});

/// Shapes and dtypes of what a call makes; empty for an op that changes its inputs. Reads no data and needs no device.
/// UsageError as dispatch_gpu_op.
std::vector<TensorMeta> infer_outputs(std::string_view name, std::span<const TensorView> inputs,
                                      const Attributes& attributes = {});

/// The compile requests a call would make on `target`, one for each kernel it launches, without a device: for `kiln
/// inspect` and compile-only tests.
std::vector<CompileRequest> compile_requests(std::string_view name, std::span<const TensorView> inputs,
                                             const Attributes& attributes, const Target& target,
                                             const Config* config = nullptr, bool overlap_previous = false);

}  // namespace kiln
