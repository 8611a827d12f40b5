#include "runtime/transfer/pinned_source.hpp"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <utility>

#include "core/errors.hpp"
#include "runtime/backend.hpp"
#include "runtime/device_access.hpp"
#include "runtime/event.hpp"
#include "runtime/transfer/memory_node.hpp"

namespace kiln {
namespace {

constexpr std::int64_t kHugePageBytes = std::int64_t{2} << 20;

/// Fresh pages, exactly `size_bytes` of them. Null when there are not enough.
void* map_memory(std::int64_t size_bytes, std::int64_t alignment_bytes) {
  // Where the system promises more memory than there is, making the pages would be the end of the process.
  const std::int64_t page_bytes = sysconf(_SC_PAGESIZE);
  if (size_bytes / page_bytes > sysconf(_SC_PHYS_PAGES)) return nullptr;
  const bool is_large = size_bytes >= kHugePageBytes;
  if (is_large) alignment_bytes = std::max(alignment_bytes, kHugePageBytes);
  const auto mapped_bytes = static_cast<std::size_t>(size_bytes + alignment_bytes - page_bytes);
  void* mapped = mmap(nullptr, mapped_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  auto* const start = static_cast<std::byte*>(mapped);
  const auto ahead = static_cast<std::size_t>(-reinterpret_cast<std::uintptr_t>(mapped)) &
                     static_cast<std::size_t>(alignment_bytes - 1);
  const std::size_t behind = mapped_bytes - ahead - static_cast<std::size_t>(size_bytes);
  if (ahead > 0) munmap(start, ahead);
  if (behind > 0) munmap(start + ahead + size_bytes, behind);
  // Fewer pages to make, to lock and for the bus to translate. A hint that may fail without harm.
  if (is_large) madvise(start + ahead, static_cast<std::size_t>(size_bytes), MADV_HUGEPAGE);
  return start + ahead;
}

class EventMark final : public PinnedMark {
 public:
  explicit EventMark(Stream stream) : event_(stream.device) { event_.record(stream); }
  bool is_done() const override { return event_.is_done(); }
  void synchronize() const override { event_.synchronize(); }

 private:
  Event event_;
};

class OrdinaryMemory : public PinnedSource {
 public:
  void* allocate(std::int64_t size_bytes, std::int64_t alignment_bytes) override {
    return map_memory(size_bytes, alignment_bytes);
  }
  void release(void* memory, std::int64_t size_bytes) noexcept override {
    munmap(memory, static_cast<std::size_t>(size_bytes));
  }
  std::unique_ptr<PinnedMark> record(Stream stream) override { return std::make_unique<EventMark>(stream); }
};

/// Mapped, made and registered step by step. The driver's own allocation was the alternative: it makes the pages in one
/// thread, on whatever node that runs on, and small ones.
class LockedMemory final : public OrdinaryMemory {
 public:
  LockedMemory(Device device, bool is_numa_local)
      : device_(device), node_(is_numa_local ? CudaBackend::host_memory_node(device) : -1) {}

  void* allocate(std::int64_t size_bytes, std::int64_t alignment_bytes) override {
    void* const memory = OrdinaryMemory::allocate(size_bytes, alignment_bytes);
    if (memory == nullptr) return nullptr;
    make_pages(memory, size_bytes, node_);
    try {
      if (CudaBackend::lock_host_memory(memory, static_cast<std::size_t>(size_bytes), device_)) return memory;
    } catch (const DeviceError& error) {
      OrdinaryMemory::release(memory, size_bytes);
      if (error.code() == kOutOfMemory) return nullptr;
      throw;
    }
    throw InternalError("the driver takes fresh memory for page-locked");
  }

  void release(void* memory, std::int64_t size_bytes) noexcept override {
    CudaBackend::unlock_host_memory(memory, device_);
    OrdinaryMemory::release(memory, size_bytes);
  }

 private:
  static constexpr int kOutOfMemory = 2;  ///< the driver's code
  Device device_;
  int node_;
};

}  // namespace

std::unique_ptr<PinnedSource> pinned_source(Device device, bool is_numa_local) {
  if (!device.is_cuda()) return std::make_unique<OrdinaryMemory>();
  require_cuda_device(device);
  return std::make_unique<LockedMemory>(device, is_numa_local);
}

}  // namespace kiln
