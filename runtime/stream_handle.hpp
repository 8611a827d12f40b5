#pragma once

#include "core/device.hpp"

namespace kiln {

/// A handle to a queue of work on one device; does not own it. On the CPU every launch is synchronous and the handle is
/// null. A null CUDA handle is the legacy default stream, which torch uses too.
struct Stream {
  Device device;
  void* handle = nullptr;  ///< CUstream

  static Stream default_of(Device device) noexcept { return {device, nullptr}; }
};

/// Priorities of a device's streams, in CUDA's numbers: lower is more urgent, 0 is what streams have by default.
struct StreamPriorityRange {
  int least = 0;     ///< the least urgent, the largest number
  int greatest = 0;  ///< the most urgent, the smallest number
};

}  // namespace kiln
