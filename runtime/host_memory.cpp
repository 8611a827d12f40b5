#include "runtime/host_memory.hpp"

#include <fmt/format.h>

#include "core/errors.hpp"
#include "runtime/device_access.hpp"

#if KILN_HAS_CUDA
#include "runtime/cuda_context.hpp"
#include "runtime/cuda_driver.hpp"
#endif

namespace kiln {
#if KILN_HAS_CUDA
namespace {

[[noreturn]] void refuse_pageable(const TensorView& host, Device device) {
  throw_value_error(
      fmt::format("{} at {} is not in page-locked memory from its first to its last byte, so {} cannot reach it; "
                  "allocate it from a kiln::PinnedPool, page-lock what you have with kiln::register_host_memory, or in "
                  "torch use tensor.pin_memory()",
                  describe(host), host.data, to_string(device)));
}

}  // namespace
#endif

void* device_pointer(const TensorView& host, Device device) {
  if (host.device == device) return host.data;
  if (host.device.is_cuda())
    throw_value_error(
        fmt::format("{} was asked for the address of {}; only CPU memory can be reached from another device",
                    to_string(device), describe(host)));
  require_cuda_device(device);
#if KILN_HAS_CUDA
  const ByteRange range = byte_range(host);
  if (range.begin == range.end) return host.data;
  const cuda::CurrentContext current(cuda::primary_context(device.index), device.index);
  const auto* first = static_cast<std::byte*>(cuda::find_device_pointer(range.begin));
  const auto* last = static_cast<std::byte*>(cuda::find_device_pointer(range.end - 1));
  // Two registrations side by side are one range for the device only where it finds them side by side too.
  if (first == nullptr || last == nullptr || last - first != range.end - 1 - range.begin) refuse_pageable(host, device);
  return const_cast<std::byte*>(first) + (static_cast<const std::byte*>(host.data) - range.begin);
#else
  throw InternalError("a build without the NVIDIA target got as far as an address of a CUDA device");
#endif
}

std::shared_ptr<void> register_host_memory(void* data, std::int64_t size_bytes, Device device) {
  if (data == nullptr || size_bytes <= 0)
    throw_value_error(
        fmt::format("page-locking {} bytes at {}: expected one byte or more of mapped memory", size_bytes, data));
  if (!device.is_cuda())
    throw_value_error("memory is page-locked for a GPU; give a CUDA device, the CPU needs no such thing");
  require_cuda_device(device);
#if KILN_HAS_CUDA
  const cuda::CurrentContext current(cuda::primary_context(device.index), device.index);
  const cuda::RelaxedCapture relaxed;
  if (!cuda::register_host(data, static_cast<std::size_t>(size_bytes)))
    throw_value_error(
        fmt::format("{} bytes at {} cannot be page-locked: some of their pages are already, by an earlier "
                    "registration or by whoever allocated them; what is page-locked can be used as it is",
                    size_bytes, data));
  return std::shared_ptr<void>(data, [device](void* memory) noexcept {
    const cuda::CurrentContext owner(cuda::primary_context(device.index), device.index);
    const cuda::RelaxedCapture relaxed_again;
    cuda::unregister_host(memory);
  });
#else
  throw InternalError("a build without the NVIDIA target got as far as page-locking memory");
#endif
}

}  // namespace kiln
