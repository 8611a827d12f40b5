#pragma once

#include <cstdint>
#include <string>

#include "core/target.hpp"

namespace kiln {

struct DeviceInfo {
  std::string name;             ///< "NVIDIA H200"; the CPU's model name
  Target target;                ///< CUDA: sm_XXa. CPU: type only (see host_cpu_target)
  std::int32_t processors = 0;  ///< SMs, or usable CPU threads
  std::int64_t memory_bytes = 0;
  std::int64_t l2_bytes = 0;
  std::int32_t shared_bytes_per_block = 0;  ///< opt-in maximum
  std::int32_t driver_version = 0;          ///< 13000 for 13.0; 0 on the CPU
  double peak_bandwidth_gb_s = 0;           ///< from memory clock and bus width; 0 when unknown
};

/// Number of usable devices of a type; 0 (never an error) where there is no driver. The CPU counts as 1.
int device_count(DeviceType type) noexcept;
/// Why device_count(cuda) is 0: no libcuda, no device, built with KILN_CUDA=OFF, a driver error. Empty when there are
/// devices.
std::string device_problem(DeviceType type) noexcept;
/// UsageError(value) naming the devices there are, for one that is not there. Cached.
const DeviceInfo& device_info(Device device);
/// Multiprocessors of a GPU on which clusters of kClusterPrograms programs, one to each, run at a time: a cluster lies
/// within one of the GPU's parts (GPCs), whose sizes differ from one GPU to the next of the same name. 0 on devices
/// without clusters, and where the driver does not tell. Cached; the first call makes the device's context.
/// DeviceError.
std::int32_t cluster_processors(Device device);
/// The most that every device with clusters takes.
inline constexpr int kClusterPrograms = 8;

}  // namespace kiln
