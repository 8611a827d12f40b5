#include "runtime/cuda/memory.hpp"

#include <fmt/format.h>

#include <atomic>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "core/errors.hpp"
#include "runtime/backend.hpp"
#include "runtime/cuda/branch_stream.hpp"
#include "runtime/cuda/context.hpp"
#include "runtime/cuda/driver.hpp"
#include "runtime/cuda/graph_holdings.hpp"
#include "runtime/device_info.hpp"

namespace kiln {
namespace cuda {
namespace {

constexpr int kOutOfMemory = 2;  ///< the driver's code, for the message

struct Allocation {
  void* memory;
  void* stream;
  void* context;
  int ordinal;
  bool is_pooled;
  bool is_graph_node;                           ///< allocated while its stream was captured
  std::shared_ptr<const BranchLoan> loan = {};  ///< of `stream`, where that was lent to a branch

  void* stream_now() const noexcept { return loan == nullptr ? stream : stream_for_frees(*loan).handle; }
};

/// Memory whose owner went while its stream was being captured: a free would become part of the graph, and the driver
/// refuses it for memory from outside.
struct DeferredFrees {
  std::mutex mutex;
  std::vector<Allocation> allocations;
  std::atomic<bool> any = false;
};

DeferredFrees& deferred_frees() {
  static auto* const frees = new DeferredFrees;
  return *frees;
}

/// Handles of Kiln's own streams that were destroyed, until the driver gives one out again.
struct GoneStreams {
  std::mutex mutex;
  std::set<void*> handles;
};

GoneStreams& gone_streams() {
  static auto* const gone = new GoneStreams;
  return *gone;
}

/// Whether memory may be freed after its stream went. Only what a graph held is late; other tensors die before their
/// stream, and are freed without asking.
enum class Stage { in_time, late };

bool is_capturing_now(void* stream) noexcept {
  try {
    return stream_is_capturing(stream);
  } catch (const std::exception&) {
    // The driver is shutting down, or the device failed: the free below fails as quietly.
    return false;
  }
}

/// False when the free must wait for the end of a capture.
bool try_free_on(void* stream, const Allocation& allocation) noexcept {
  if (!allocation.is_graph_node && is_capturing_now(stream)) return false;
  const RelaxedCapture relaxed;  // this thread may capture another stream, which the free would spoil
  free_async(allocation.memory, stream);
  return true;
}

/// As try_free_on.
bool try_free(const Allocation& allocation, Stage stage) noexcept {
  const CurrentDevice current(Device::cuda(allocation.ordinal), allocation.context);
  if (!allocation.is_pooled) {
    const RelaxedCapture relaxed;
    free_now(allocation.memory);
    return true;
  }
  void* const stream = allocation.stream_now();
  if (stage == Stage::in_time) return try_free_on(stream, allocation);
  GoneStreams& gone = gone_streams();
  const std::lock_guard lock(gone.mutex);  // no stream goes between the look and the free
  // The work of one that is gone is done: the default stream takes its place.
  return try_free_on(gone.handles.contains(stream) ? nullptr : stream, allocation);
}

void free_or_defer(const Allocation& allocation) noexcept {
  if (try_free(allocation, is_dropping_holdings() ? Stage::late : Stage::in_time)) return;
  try {
    DeferredFrees& frees = deferred_frees();
    const std::lock_guard lock(frees.mutex);
    frees.allocations.push_back(allocation);
    frees.any.store(true, std::memory_order_release);
  } catch (const std::exception&) {
    // No host memory to remember it in. Leaking one block is what is left: a deleter may not throw.
    return;
  }
}

struct PoolState {
  std::once_flag prepared;
  bool is_usable = false;
};

bool has_pool(int ordinal) {
  static auto* const pools = new std::vector<PoolState>(static_cast<std::size_t>(device_count()));
  PoolState& pool = pools->at(static_cast<std::size_t>(ordinal));
  std::call_once(pool.prepared, [&] {
    if (!query_device(ordinal).has_memory_pools) return;
    prepare_memory_pool(ordinal);
    pool.is_usable = true;
  });
  return pool.is_usable;
}

/// The owner of what was allocated. DeviceError when that failed.
std::shared_ptr<void> own(const Allocation& allocation, std::int64_t size_bytes) {
  const Device device = Device::cuda(allocation.ordinal);
  if (allocation.memory == nullptr)
    throw DeviceError(
        allocation.is_pooled ? "cuMemAllocAsync" : "cuMemAlloc", kOutOfMemory,
        fmt::format("out of memory: {} bytes asked for on {}, {} of {} free", size_bytes, to_string(device),
                    free_memory_bytes(), CudaBackend::info(device.index).memory_bytes));
  // If the control block cannot be allocated the deleter runs at once, so nothing leaks.
  return std::shared_ptr<void>(allocation.memory, [allocation](void*) noexcept { free_or_defer(allocation); });
}

}  // namespace

void note_stream_made(void* stream) {
  GoneStreams& gone = gone_streams();
  const std::lock_guard lock(gone.mutex);
  gone.handles.erase(stream);
}

void note_stream_gone(void* stream) noexcept {
  CudaBackend::free_deferred();
  CudaBackend::drop_finished_holdings();
  GoneStreams& gone = gone_streams();
  const std::lock_guard lock(gone.mutex);
  try {
    gone.handles.insert(stream);
  } catch (const std::exception&) {
    return;  // no host memory to remember it in
  }
}

}  // namespace cuda

void CudaBackend::free_deferred() noexcept {
  cuda::DeferredFrees& frees = cuda::deferred_frees();
  if (!frees.any.load(std::memory_order_acquire)) return;
  const std::lock_guard lock(frees.mutex);
  std::erase_if(frees.allocations,
                [](const cuda::Allocation& allocation) { return cuda::try_free(allocation, cuda::Stage::late); });
  frees.any.store(!frees.allocations.empty(), std::memory_order_release);
}

std::shared_ptr<void> CudaBackend::allocate(std::int64_t size_bytes, Stream stream) {
  // In whole words: an atomic operation on the last of an odd number of bytes is one on the word that holds it.
  size_bytes = (size_bytes + 15) / 16 * 16;
  const int ordinal = stream.device.index;
  cuda::Allocation allocation{nullptr, stream.handle,           cuda::primary_context(ordinal),
                              ordinal, cuda::has_pool(ordinal), false};
  const CurrentDevice current(stream.device, allocation.context);
  free_deferred();
  drop_finished_holdings();
  if (allocation.is_pooled) {
    allocation.loan = cuda::find_branch_loan(stream);
    allocation.is_graph_node = cuda::stream_is_capturing(stream.handle);
    const cuda::RelaxedCapture relaxed;  // for a stream that is not captured, while this thread captures another
    allocation.memory = cuda::try_allocate_async(size_bytes, stream.handle);
  } else {
    const cuda::RelaxedCapture relaxed;
    allocation.memory = cuda::try_allocate(size_bytes);
  }
  return cuda::own(allocation, size_bytes);
}

std::shared_ptr<void> CudaBackend::allocate_outside_streams(std::int64_t size_bytes, Device device) {
  cuda::Allocation allocation{nullptr, nullptr, cuda::primary_context(device.index), device.index, false, false};
  const CurrentDevice current(device, allocation.context);
  const cuda::RelaxedCapture relaxed;
  allocation.memory = cuda::try_allocate(size_bytes);
  if (allocation.memory == nullptr && cuda::has_pool(device.index)) {
    cuda::trim_memory_pool(device.index);  // it keeps what was freed
    allocation.memory = cuda::try_allocate(size_bytes);
  }
  return cuda::own(allocation, size_bytes);
}

}  // namespace kiln
