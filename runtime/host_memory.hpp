#pragma once

#include <cstdint>
#include <memory>

#include "core/tensor.hpp"

namespace kiln {

/// The address at which `device` reads and writes the memory of `host`, a CPU tensor in page-locked memory:
/// PinnedPool's, torch's pin_memory(), cudaHostAlloc's or registered (register_host_memory). Nothing is copied; kernels
/// reach the memory over the bus. Any strides; a tensor without elements has no memory to ask about, and its `data`
/// comes back. A tensor of `device` itself is at its own address, and so is CPU memory when `device` is the CPU.
///
/// The tensor may span several registrations that lie side by side; a copy by the copy engine may not, and ends in a
/// DeviceError.
///
/// UsageError(value) when some byte between the tensor's first and last is not page-locked, or the tensor is on another
/// GPU; DeviceError where there is no such device. A query of the driver (0.2 us), meant to be asked at every launch:
/// memory may be released between two calls, so no answer is remembered.
void* device_pointer(const TensorView& host, Device device);

/// Page-locks memory that the caller owns and maps it for every GPU, until the last copy of the returned owner goes;
/// the memory must stay mapped until then, and no GPU may be using it when the owner goes. The owner points to `data`.
///
/// The range may start and end anywhere; the system locks the pages that it touches, but only its own bytes count as
/// page-locked. Memory that the process may not write (a file mapped read-only) is registered so that GPUs may only
/// read it. `device` is the GPU whose context does it. Registering memory that was never written is slow, as one thread
/// makes its pages: write it first, from several.
///
/// UsageError(value) for an empty range, and for one that overlaps page-locked memory; DeviceError where there is no
/// such device, or the system refuses (too little memory, a limit on locked memory, an address range that is not
/// mapped).
std::shared_ptr<void> register_host_memory(void* data, std::int64_t size_bytes, Device device = Device::cuda());

}  // namespace kiln
