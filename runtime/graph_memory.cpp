#include "runtime/graph_memory.hpp"

#include <algorithm>
#include <functional>
#include <numeric>

#include "runtime/backend.hpp"
namespace kiln {
namespace {

/// Blocks start at multiples of this, which every vector and bulk access takes.
constexpr std::int64_t kBlockBytes = 512;
/// Small blocks of a GPU share an allocation, which costs a trip to the driver.
constexpr std::int64_t kSharedSegmentBytes = std::int64_t{2} << 20;

std::shared_ptr<void> allocate_segment(std::int64_t size_bytes, Device device) {
  return with_backend(device.type, [&](auto backend) { return backend.allocate_outside_streams(size_bytes, device); });
}

bool holds(const void* begin, std::int64_t size_bytes, const void* byte) {
  const auto* first = static_cast<const std::byte*>(begin);
  return !std::less<>()(static_cast<const std::byte*>(byte), first) &&
         std::less<>()(static_cast<const std::byte*>(byte), first + size_bytes);
}

}  // namespace

/// The deleter of a block.
struct GraphMemory::Return {
  std::shared_ptr<GraphMemory> memory;
  std::int64_t size_bytes;
  void* stream;

  void operator()(void* block) noexcept {
    const std::lock_guard lock(memory->mutex_);
    if (memory->is_closed_) return;
    try {
      memory->free_.push_back({static_cast<std::byte*>(block), size_bytes, stream});
    } catch (const std::exception&) {
      return;  // it is not used again; it goes with the rest
    }
  }
};

std::shared_ptr<void> GraphMemory::allocate(std::int64_t size_bytes, Stream stream) {
  size_bytes = (size_bytes + kBlockBytes - 1) / kBlockBytes * kBlockBytes;
  std::byte* block = nullptr;
  {
    const std::lock_guard lock(mutex_);
    block = reuse(size_bytes, stream.handle);
    if (block == nullptr) block = carve(size_bytes, stream);
  }
  return std::shared_ptr<void>(block, Return{shared_from_this(), size_bytes, stream.handle});
}

/// The smallest block that fits and is not twice as large, or null. `size_bytes` becomes the block's.
std::byte* GraphMemory::reuse(std::int64_t& size_bytes, void* stream) {
  auto best = free_.end();
  for (auto block = free_.begin(); block != free_.end(); ++block)
    if (block->stream == stream && block->size_bytes >= size_bytes && block->size_bytes < 2 * size_bytes &&
        (best == free_.end() || block->size_bytes < best->size_bytes))
      best = block;
  if (best == free_.end()) return nullptr;
  std::byte* const memory = best->memory;
  size_bytes = best->size_bytes;
  free_.erase(best);
  return memory;
}

std::byte* GraphMemory::carve(std::int64_t size_bytes, Stream stream) {
  // Kiln lets no stream of a second device into a recording, but the driver's own functions do.
  auto segment = std::find_if(segments_.begin(), segments_.end(), [&](const Segment& each) {
    return each.device == stream.device && each.size_bytes - each.used_bytes >= size_bytes;
  });
  if (segment == segments_.end()) {
    const std::int64_t segment_bytes = stream.device.is_cuda() ? std::max(size_bytes, kSharedSegmentBytes) : size_bytes;
    segments_.push_back({allocate_segment(segment_bytes, stream.device), stream.device, segment_bytes, 0});
    segment = segments_.end() - 1;
  }
  std::byte* const block = static_cast<std::byte*>(segment->memory.get()) + segment->used_bytes;
  segment->used_bytes += size_bytes;
  return block;
}

void GraphMemory::close() {
  const std::lock_guard lock(mutex_);
  is_closed_ = true;
  free_.clear();
}

bool GraphMemory::contains(const void* memory) const {
  const std::lock_guard lock(mutex_);
  return std::any_of(segments_.begin(), segments_.end(),
                     [&](const Segment& segment) { return holds(segment.memory.get(), segment.size_bytes, memory); });
}

std::int64_t GraphMemory::size_bytes() const {
  const std::lock_guard lock(mutex_);
  return std::accumulate(segments_.begin(), segments_.end(), std::int64_t{0},
                         [](std::int64_t sum, const Segment& segment) { return sum + segment.size_bytes; });
}

}  // namespace kiln
