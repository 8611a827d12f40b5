#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/launch.hpp"
#include "ops/op_spec.hpp"
#include "registry/dispatch.hpp"
#include "registry/kernel_cache.hpp"
#include "registry/memory_overlap.hpp"
#include "registry/tuned_config.hpp"
#include "runtime/tensor_map.hpp"

namespace kiln {

class ProfiledCall;

/// One call with everything decided but the addresses. Immutable and shared among threads. A plan serves every set of
/// pointers, since kernels look at alignment themselves, but for tensors with a tensor map: their data is aligned to
/// kTensorMapAlignmentBytes, as `extents` says.
struct Plan : std::enable_shared_from_this<Plan> {
  struct TensorSlot {
    DType dtype = DType::f32;
    Device device;
    Dims shape, strides;
    bool absent = false;  ///< an optional input that was left out
  };

  const OpSpec* spec = nullptr;
  Device device;
  std::vector<TensorSlot> tensors;    ///< outputs first, then inputs
  std::vector<MemoryExtent> extents;  ///< of `tensors`
  std::vector<TensorMeta> outputs;
  struct Step {
    std::shared_ptr<const LoadedKernel> loaded;
    LaunchGeometry geometry;
    ArgumentTemplate arguments;
    TensorMapSet tensor_maps;  ///< of `arguments`
  };
  std::vector<Step> steps;  ///< run in order; none when every output is empty
  std::vector<std::int64_t> workspace_offsets_bytes;
  std::int64_t workspace_bytes = 0;  ///< one allocation that holds all of them
  std::optional<LaunchCheck> check;
  std::vector<std::size_t> host_tensors;  ///< those in host memory that the GPU reads or writes itself
  PlanReport report;

  int num_outputs() const noexcept { return static_cast<int>(outputs.size()); }
};

/// The variant, config and launch of one call on one target.
struct Choice {
  const Variant* variant = nullptr;
  Config config;
  std::string config_source;  ///< see PlanReport
  LaunchPlan plan;
  std::vector<CompileRequest> requests;  ///< of plan.launches
};
/// Needs no device. UsageError: not_implemented when no variant serves the call, value for a `given` config outside the
/// variant's space. `overlap_previous`: see DispatchOptions; without effect where target or variant cannot.
Choice choose(const OpSpec& spec, const OpCall& call, const Target& target, const Config* given,
              const TunedLookup& tuned = {}, bool overlap_previous = false);

/// Whether kernels on a GPU may be launched so that they overlap what is before them.
bool can_overlap_previous(Device device);
/// Whether a call's plan is made for that.
inline bool overlaps_previous(const DispatchOptions& options, Device device) {
  return options.overlap_previous && device.is_cuda() && can_overlap_previous(device);
}

/// What to compile for on `device`: its architecture, as PTX where its driver is older than NVRTC's machine code.
Target target_of(Device device);

/// Whether a plan may be made of kernels that are not loaded yet.
enum class Loading {
  allowed,
  anew,     ///< a copy of each kernel for this plan alone, at a place in memory of its own
  refused,  ///< UsageError(value): the stream is being captured
};

/// Chooses, compiles for `target` and loads on `device` what a validated call needs. `call.outputs` are the given
/// outputs, or dense views without data. A tuned config that does not compile or load gives way to the default.
std::shared_ptr<const Plan> build_plan(const OpSpec& spec, const OpCall& call, std::span<const TensorMeta> outputs,
                                       const Target& target, Device device, const Config* given,
                                       const TunedLookup& tuned = {}, Loading loading = Loading::allowed,
                                       bool overlap_previous = false);

/// The tensors of a call as enqueue takes them, outputs first.
using PlanTensors = std::array<const TensorView*, kMaxTensors>;
/// Pointers to the tensors of a call, in `storage`, once they are found to be what the plan was made for. UsageError
/// (value) naming the tensor that is not, with `bound` ("resolved") as what was done with the plan, and for addresses
/// that the op does not allow.
std::span<const TensorView* const> matching_tensors(const Plan& plan, std::span<const TensorView> inputs,
                                                    std::span<const TensorView> outputs, const char* bound,
                                                    PlanTensors& storage);
/// UsageError(value) for a plan with a LaunchCheck, during a capture.
void refuse_check(const Plan& plan);

/// Enqueues the plan's kernels over `tensors`, outputs first. Everything was checked before, but for what takes a look
/// at the device: UsageError(value) for host memory that is not pinned, for a failed LaunchCheck, and for one during
/// stream capture. Recordings and profilers are told by observed_launch.
void enqueue(const Plan& plan, std::span<const TensorView* const> tensors, Stream stream);
/// The same, told to `call` just before the first kernel and after the last: what is allocated is no kernel's time.
void enqueue_profiled(ProfiledCall& call, const Plan& plan, std::span<const TensorView* const> tensors, Stream stream);

}  // namespace kiln
