#pragma once

#include <cstdint>
#include <memory>

#include "runtime/stream.hpp"

namespace kiln::cuda {

/// Device memory in the order of `stream`, from the device's default pool where it has pools. Freed on `stream` when
/// the last owner goes, which never throws and is safe at process exit. While `stream` is being captured the allocation
/// is a node of the graph (`empty` asks for one only in captures that are not kiln::capture's). DeviceError when memory
/// is short, saying how much was asked for and is free.
std::shared_ptr<void> allocate(std::int64_t size_bytes, Stream stream);

/// Device memory in the order of no stream: it is there at once, and its last owner waits for the device before it is
/// freed (cuMemFree does). May be called while streams are being captured. DeviceError as above.
std::shared_ptr<void> allocate_outside_streams(std::int64_t size_bytes, Device device);

/// Frees what could not be freed while its stream was being captured. Due before a stream goes: a free names it.
void free_deferred() noexcept;

/// Tell of streams that Kiln makes, and of those that it is about to destroy: what a graph held is dropped when the
/// driver says so, which may be after the stream went on which it would be freed.
void note_stream_made(void* stream);
void note_stream_gone(void* stream) noexcept;

}  // namespace kiln::cuda
