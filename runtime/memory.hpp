#pragma once

#include <cstdint>
#include <memory>

#include "core/tensor.hpp"
#include "runtime/event.hpp"
#include "runtime/stream.hpp"

namespace kiln {

/// Uninitialised, dense. CUDA: stream-ordered from the device's pool, freed on `stream` (which must outlive the tensor)
/// when the last owner goes. CPU: 64-byte aligned. While kiln::capture records `stream` the memory is the graph's own:
/// every replay writes it, and it stays as long as the graph or the tensor. UsageError for a negative extent;
/// DeviceError when memory is short, saying how much was asked for.
Tensor empty(const Dims& shape, DType dtype, Device device);
Tensor empty(const Dims& shape, DType dtype, Stream stream);

/// Copies a dense tensor between any two devices, same shape and dtype; asynchronous on `stream` when either side is
/// CUDA. UsageError when shapes, dtypes or layouts differ, when `stream` is of neither CUDA device, and for pageable
/// memory while kiln::capture records `stream`. Memory of the CPU must stay until the copy is done.
void copy(const TensorView& destination, const TensorView& source, Stream stream);
/// As copy. The event is reached when the copy is done: memory on the CPU must stay until then, and on the source's
/// side unchanged. Beside other work it runs only from and to page-locked memory (PinnedPool, register_host_memory);
/// with other memory the driver makes the host wait. From CPU to CPU it is done at once.
Event copy_async(const TensorView& destination, const TensorView& source, Stream stream);
/// A dense copy on `device` of a view with any strides. Waits for all work on the source's device first, and for the
/// copy. UsageError(value) in a graph's body that records either device.
Tensor to_device(const TensorView& source, Device device);
/// Fills bytes; asynchronous on CUDA streams.
void memset_bytes(const TensorView& destination, std::uint8_t value, Stream stream);

}  // namespace kiln
