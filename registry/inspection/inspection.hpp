#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/launch.hpp"
#include "registry/inspection/occupancy.hpp"
#include "registry/plan/call.hpp"
#include "registry/plan/tuning_policy.hpp"
#include "runtime/kernel.hpp"

namespace kiln {

/// One kernel of a call, as it would be compiled and launched.
struct InspectedKernel {
  CompileRequest request;
  LaunchGeometry geometry;
};

/// What a call would run.
struct InspectedCall {
  std::string variant;
  Config config;
  std::string config_source;             ///< see PlanReport
  std::vector<InspectedKernel> kernels;  ///< in launch order
  std::vector<std::int64_t> workspace_bytes;
  Cost cost;
};

/// What a call would run on `target`: no data is read and nothing compiled, so no device is needed. A call with a
/// stream, whose device is then the target's, and no config takes the one that it would have there under `tuning`.
/// UsageError as dispatch_gpu_op.
InspectedCall inspect_call(const Call& call, const Target& target, const Config* config = nullptr,
                           TuningPolicy tuning = TuningPolicy::off);

/// Refuses a form that kernels for `target` do not have: "ptx", "sass", "resources" and "costs" are for GPUs, "llvm-ir"
/// and "asm" for the CPU, "source" for both. UsageError(value), which for another name lists these.
void check_kernel_form(std::string_view form, const Target& target);
/// A kernel in one of these forms, "resources" aside; "source" is what is given to the compiler, "costs" what its lines
/// cost (see kernel_costs.hpp). CompileError;
/// DeviceError for a compiler or disassembler that is absent.
std::string kernel_text(const CompileRequest& request, std::string_view form);

/// What a kernel for a GPU takes of it. ptxas's own account needs no GPU and tells spills from arrays; the driver's is
/// there where a device was named, for it may have compiled PTX anew.
struct KernelUsage {
  std::int32_t registers = 0;
  std::int32_t static_shared_bytes = 0;
  std::int32_t pipeline_shared_bytes = 0;  ///< dynamic, of tl::pipeline
  std::int32_t stack_bytes = 0;            ///< per thread: local arrays and spills
  std::int32_t spill_store_bytes = 0;
  std::int32_t spill_load_bytes = 0;
  bool serializes_products = false;  ///< each of wgmma's products is waited for before the next
  std::int32_t threads_per_block = 0;
  std::optional<KernelResources> loaded;
  std::optional<Occupancy> occupancy;  ///< of what was loaded, else of ptxas's account; nullopt for an unknown GPU
};
/// Compiles the kernel. CompileError; DeviceError where there is no NVRTC.
KernelUsage kernel_usage(const InspectedKernel& kernel, std::optional<Device> device);

}  // namespace kiln
