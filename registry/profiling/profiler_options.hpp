#pragma once

#include <cstddef>

namespace kiln {

/// How work on GPUs is timed.
enum class DeviceTimeSource {
  automatic,  ///< CUPTI where it can be used, else events; the report says which, and why
  cupti,      ///< NVIDIA's profiling library: what the GPU took down of each kernel
  events,     ///< two events around each launch: small kernels appear longer, and a call costs the host more
};

struct ProfilerOptions {
  /// Ranges around calls and regions for Nsight Systems and other tools that listen to NVTX.
  bool nvtx = false;
  /// Times work on GPUs. Without it only the host is timed.
  bool device_time = true;
  /// Calls, graph launches, regions and their names beyond these are counted and not kept; about 100 bytes each. While
  /// CUPTI times launches it keeps as much again for each of the process, whoever made it, up to 4 times as many.
  /// Threads reserve some at a time, first 8 and later up to 256, so several of them may keep a few less.
  std::size_t max_records = 1'000'000;
  /// Of work on GPUs, where `device_time`.
  DeviceTimeSource device_time_source = DeviceTimeSource::automatic;
};

}  // namespace kiln
