#include "runtime/host_memory.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/errors.hpp"
#include "runtime/backend.hpp"
#include "runtime/device_access.hpp"

namespace kiln {
namespace {

[[noreturn]] void refuse_pageable(const TensorView& host, Device device) {
  throw_value_error(
      fmt::format("{} at {} is not in page-locked memory, or not all of it is, so {} cannot reach it; "
                  "allocate it from a kiln::PinnedPool, page-lock what you have with kiln::register_host_memory, or in "
                  "torch use tensor.pin_memory()",
                  describe(host), host.data, to_string(device)));
}

}  // namespace

void* device_pointer(const TensorView& host, Device device) {
  if (host.device == device) return host.data;
  if (host.device.is_cuda())
    throw_value_error(
        fmt::format("{} was asked for the address of {}; only CPU memory can be reached from another device",
                    to_string(device), describe(host)));
  require_cuda_device(device);
  const ByteRange range = byte_range(host);
  if (range.begin == range.end) return host.data;
  const CurrentDevice current(device);
  std::byte* first = nullptr;
  // Once for each registration that the tensor spans, which is one as a rule; the device must find them side by side
  // too.
  for (std::int64_t offset_bytes = 0, size_bytes = 0; offset_bytes < range.end - range.begin;
       offset_bytes += size_bytes) {
    const CudaBackend::LockedRange locked = CudaBackend::find_locked_range(range.begin + offset_bytes);
    if (offset_bytes == 0) first = locked.device_address;
    if (locked.device_address == nullptr || locked.device_address - first != offset_bytes)
      refuse_pageable(host, device);
    size_bytes = std::min(locked.size_bytes, range.end - range.begin - offset_bytes);
  }
  return first + (static_cast<const std::byte*>(host.data) - range.begin);
}

std::shared_ptr<void> register_host_memory(void* data, std::int64_t size_bytes, Device device) {
  if (data == nullptr || size_bytes <= 0)
    throw_value_error(
        fmt::format("page-locking {} bytes at {}: expected one byte or more of mapped memory", size_bytes, data));
  if (!device.is_cuda())
    throw_value_error("memory is page-locked for a GPU; give a CUDA device, the CPU needs no such thing");
  require_cuda_device(device);
  if (!CudaBackend::lock_host_memory(data, static_cast<std::size_t>(size_bytes), device))
    throw_value_error(
        fmt::format("{} bytes at {} cannot be page-locked: some of their pages are already, by an earlier "
                    "registration or by whoever allocated them; what is page-locked can be used as it is",
                    size_bytes, data));
  return std::shared_ptr<void>(data,
                               [device](void* memory) noexcept { CudaBackend::unlock_host_memory(memory, device); });
}

}  // namespace kiln
