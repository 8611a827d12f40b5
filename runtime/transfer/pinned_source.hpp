#pragma once

#include <cstdint>
#include <memory>

#include "runtime/stream.hpp"

namespace kiln {

/// A mark behind work that uses a block of a PinnedPool.
class PinnedMark {
 public:
  virtual ~PinnedMark() = default;
  virtual bool is_done() const = 0;
  virtual void synchronize() const = 0;
};

/// Where a PinnedPool's memory comes from, and how it learns that a stream is done with a block. Called from any
/// thread.
class PinnedSource {
 public:
  virtual ~PinnedSource() = default;
  /// Null when memory is short; DeviceError for anything else.
  virtual void* allocate(std::int64_t size_bytes, std::int64_t alignment_bytes) = 0;
  /// Nothing uses the memory any more.
  virtual void release(void* memory, std::int64_t size_bytes) noexcept = 0;
  virtual std::unique_ptr<PinnedMark> record(Stream stream) = 0;
};

/// Memory that is page-locked for a GPU, or ordinary memory for the CPU; Kiln's own streams. DeviceError when the GPU
/// is absent.
std::unique_ptr<PinnedSource> pinned_source(Device device, bool is_numa_local);

}  // namespace kiln
