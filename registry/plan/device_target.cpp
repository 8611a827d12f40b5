#include "registry/plan/device_target.hpp"

#include "compiler/compile_request.hpp"
#include "compiler/compilers.hpp"
#include "compiler/host_cpu.hpp"
#include "compiler/nvrtc_compiler.hpp"
#include "runtime/device_info.hpp"

namespace kiln {

Target target_of(Device device) {
  if (!device.is_cuda()) return host_cpu_target();
  const DeviceInfo& info = device_info(device);
  Target target = info.target;
  // The compiler knows no driver and the runtime no compiler, so the decision falls here. Without NVRTC the compile
  // itself says what is missing.
  if (compiler_problem(DeviceType::cuda).empty() && needs_ptx(info.driver_version, nvrtc_version()))
    target.features = "ptx";
  return target;
}

std::int64_t processors_of(Device device) {
  return device_info(device).processors;
}

std::int64_t cluster_processors_of(Device device) {
  return cluster_processors(device);
}

bool can_overlap_previous(Device device) {
  constexpr int kOldestDriver = 12030;  ///< older ones have no such edges in graphs, so that a capture would fail
  const DeviceInfo& info = device_info(device);
  return can_overlap_previous(info.target) && info.driver_version >= kOldestDriver;
}

}  // namespace kiln
