#include <fmt/format.h>
#include <sys/mman.h>

#include <cstdlib>

#include "core/errors.hpp"
#include "runtime/backend.hpp"

namespace kiln {
namespace {

constexpr std::int64_t kCpuAlignmentBytes = 64;
constexpr std::int64_t kCpuHugePageBytes = std::int64_t{2} << 20;

}  // namespace

/// Aligned to 64 bytes, in huge pages where it is large.
std::shared_ptr<void> CpuBackend::allocate(std::int64_t size_bytes, Stream /*stream*/) {
  const bool is_large = size_bytes >= 2 * kCpuHugePageBytes;
  const std::int64_t alignment = is_large ? kCpuHugePageBytes : kCpuAlignmentBytes;
  // aligned_alloc wants a multiple of the alignment.
  const std::int64_t rounded_bytes = (size_bytes + alignment - 1) / alignment * alignment;
  void* memory = std::aligned_alloc(static_cast<std::size_t>(alignment), static_cast<std::size_t>(rounded_bytes));
  if (memory == nullptr)
    throw DeviceError("aligned_alloc", 0, fmt::format("out of memory: {} bytes asked for on cpu", size_bytes));
  // A hint that may fail without harm; where Linux gives huge pages on request only, they are worth 2% of bandwidth.
  if (is_large) madvise(memory, static_cast<std::size_t>(rounded_bytes), MADV_HUGEPAGE);
  return std::shared_ptr<void>(memory, [](void* block) { std::free(block); });
}

std::shared_ptr<void> CpuBackend::allocate_outside_streams(std::int64_t size_bytes, Device device) {
  return allocate(size_bytes, Stream::default_of(device));
}

}  // namespace kiln
