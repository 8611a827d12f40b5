#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "core/artifact.hpp"
#include "core/launch.hpp"
#include "runtime/stream.hpp"

namespace kiln {

/// Registers, shared memory, spills and clusters of a loaded kernel; as initialised on the CPU.
struct KernelResources {
  std::int32_t registers = 0;
  std::int32_t static_shared_bytes = 0;
  std::int32_t local_bytes = 0;  ///< stack and spills, per thread
  std::int32_t max_threads_per_block = 0;
  std::array<std::int32_t, 3> cluster{1, 1, 1};  ///< programs of a cluster along each axis; grids are multiples of it
};

/// A callable kernel on one device. Launching is thread-safe.
class Kernel {
 public:
  virtual ~Kernel() = default;
  /// The one launch path. `parameters[i]` is the address of parameter i, read before the call returns. CUDA:
  /// asynchronous on `stream`. CPU: returns when done, programs spread over threads. A grid with a zero axis launches
  /// nothing. DeviceError.
  virtual void launch(const LaunchGeometry& geometry, void* const* parameters, Stream stream) const = 0;
  /// Gives the kernel tensor maps for what its pipelines load (Artifact::box_loads); without one it copies by threads.
  /// What a kernel was given it keeps. False, with nothing done, where a map's slot holds another: a further load of
  /// the same artifact has room. Distances that no tensor map has are passed over. DeviceError.
  virtual bool take_box_maps([[maybe_unused]] std::span<const BoxMap> maps) const { return true; }
  virtual KernelResources resources() const = 0;
  /// Takes the code from a GPU's memory before the process ends, where otherwise it stays. Once, and nobody else may
  /// know the kernel: its launches are done, no graph holds one, and there will be none. What the driver refuses stays.
  virtual void unload() const noexcept {}
};

/// Loads an artifact on `device`. DeviceError when the driver refuses it; UsageError(value) when the artifact's target
/// does not run there.
std::shared_ptr<const Kernel> load_kernel(const Artifact& artifact, Device device);

}  // namespace kiln
