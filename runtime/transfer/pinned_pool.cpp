#include "runtime/transfer/pinned_pool.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <deque>
#include <limits>
#include <map>
#include <mutex>
#include <utility>

#include "core/errors.hpp"
#include "runtime/transfer/pinned_source.hpp"

namespace kiln {
namespace {

constexpr std::int64_t kPageBytes = 4096;

struct Block {
  void* memory = nullptr;
  std::int64_t size_bytes = 0;
  std::deque<std::unique_ptr<PinnedMark>> marks;  ///< of work that may still use the memory, oldest first
  std::uint64_t freed_at = 0;                     ///< counts frees, for the order in which the cache forgets
};

using Blocks = std::deque<std::shared_ptr<Block>>;

/// Forgets marks that were reached. A mark that cannot be asked (the device failed) is not reached.
bool is_idle(Block& block) noexcept {
  try {
    while (!block.marks.empty() && block.marks.front()->is_done()) block.marks.pop_front();
  } catch (const Error&) {
    return false;
  }
  return block.marks.empty();
}

Blocks::iterator first_idle(Blocks& blocks) noexcept {
  return std::find_if(blocks.begin(), blocks.end(), [](const auto& block) { return is_idle(*block); });
}

std::int64_t block_size_bytes(const Dims& shape, DType dtype) {
  const std::int64_t elements = num_elements(shape);
  if (elements > (std::numeric_limits<std::int64_t>::max() - kPageBytes) / itemsize_bytes(dtype))
    throw_value_error(fmt::format("a tensor of {} elements of {} is larger than any memory", elements, name(dtype)));
  return (elements * itemsize_bytes(dtype) + kPageBytes - 1) / kPageBytes * kPageBytes;
}

void validate(const PinnedPoolOptions& options) {
  const auto alignment = static_cast<std::uint64_t>(options.alignment_bytes);
  if (options.alignment_bytes < kPageBytes || !std::has_single_bit(alignment))
    throw_value_error(fmt::format("a pinned pool with alignment_bytes={}; expected a power of two, {} or more",
                                  options.alignment_bytes, kPageBytes));
  if (options.max_cached_bytes < 0)
    throw_value_error(
        fmt::format("a pinned pool with max_cached_bytes={}; expected 0 or more", options.max_cached_bytes));
}

}  // namespace

struct PinnedPool::State {
  State(std::unique_ptr<PinnedSource> from, const PinnedPoolOptions& with) : source(std::move(from)), options(with) {}
  /// Neither tensors nor pool are left.
  ~State() {
    for (const auto& [size_bytes, blocks] : free)
      for (const auto& block : blocks) wait_and_release(*block);
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  /// Null when no free block of that size is idle.
  std::shared_ptr<Block> reuse(std::int64_t size_bytes) {
    const std::lock_guard lock(mutex);
    const auto found = free.find(size_bytes);
    if (found == free.end()) return nullptr;
    Blocks& blocks = found->second;
    const auto idle = first_idle(blocks);
    if (idle == blocks.end()) return nullptr;
    std::shared_ptr<Block> block = std::move(*idle);
    blocks.erase(idle);
    if (blocks.empty()) free.erase(found);
    free_bytes -= size_bytes;
    in_use_bytes += size_bytes;
    ++reuses;
    return block;
  }

  /// Asks the system, and if it has too little once more when everything that is free here was given back to it.
  std::shared_ptr<Block> allocate(std::int64_t size_bytes) {
    auto block = std::make_shared<Block>();
    block->size_bytes = size_bytes;
    block->memory = source->allocate(size_bytes, options.alignment_bytes);
    if (block->memory == nullptr) {
      for (const auto& [unused_bytes, blocks] : take_free())
        for (const auto& unused : blocks) wait_and_release(*unused);
      block->memory = source->allocate(size_bytes, options.alignment_bytes);
    }
    const std::lock_guard lock(mutex);
    if (block->memory == nullptr)
      throw DeviceError("allocating pinned memory", 0,
                        fmt::format("out of memory: {} bytes asked for, {} are in use by this pool's tensors",
                                    size_bytes, in_use_bytes));
    in_use_bytes += size_bytes;
    ++allocations;
    peak_bytes = std::max(peak_bytes, in_use_bytes + free_bytes);
    return block;
  }

  void take_back(const std::shared_ptr<Block>& block) noexcept {
    try {
      const std::lock_guard lock(mutex);
      in_use_bytes -= block->size_bytes;
      block->freed_at = ++frees;
      free[block->size_bytes].push_back(block);
      free_bytes += block->size_bytes;
    } catch (const std::exception&) {
      wait_and_release(*block);  // no memory to remember it in
    }
    trim(options.max_cached_bytes);
  }

  /// Gives idle blocks back, the longest free first, until at most `keep_bytes` are free.
  void trim(std::int64_t keep_bytes) noexcept {
    while (const std::shared_ptr<Block> block = take_idle(keep_bytes))
      source->release(block->memory, block->size_bytes);
  }

  std::shared_ptr<Block> take_idle(std::int64_t keep_bytes) noexcept {
    const std::lock_guard lock(mutex);
    if (free_bytes <= keep_bytes) return nullptr;
    auto holder = free.end();
    Blocks::iterator oldest;
    for (auto entry = free.begin(); entry != free.end(); ++entry) {
      const auto idle = first_idle(entry->second);
      if (idle == entry->second.end() || (holder != free.end() && (*oldest)->freed_at < (*idle)->freed_at)) continue;
      holder = entry;
      oldest = idle;
    }
    if (holder == free.end()) return nullptr;
    std::shared_ptr<Block> block = std::move(*oldest);
    holder->second.erase(oldest);
    if (holder->second.empty()) free.erase(holder);
    free_bytes -= block->size_bytes;
    return block;
  }

  std::map<std::int64_t, Blocks> take_free() {
    const std::lock_guard lock(mutex);
    free_bytes = 0;
    return std::exchange(free, {});
  }

  void wait_and_release(const Block& block) noexcept {
    try {
      for (const auto& mark : block.marks) mark->synchronize();
    } catch (const Error&) {
      // The device failed or the driver is shutting down: nothing uses the memory any more.
      source->release(block.memory, block.size_bytes);
      return;
    }
    source->release(block.memory, block.size_bytes);
  }

  std::unique_ptr<PinnedSource> source;
  const PinnedPoolOptions options;
  std::mutex mutex;
  std::map<std::int64_t, Blocks> free;  ///< by size, the longest free first; idle and pending
  std::int64_t in_use_bytes = 0, free_bytes = 0, peak_bytes = 0, allocations = 0, reuses = 0;
  std::uint64_t frees = 0;
};

/// The deleter of a tensor's owner, which is how a tensor's block is found: not by address, which another block may
/// have had before.
struct PinnedPool::Return {
  std::shared_ptr<State> state;
  std::shared_ptr<Block> block;
  void operator()(void*) const noexcept { state->take_back(block); }
};

PinnedPool::PinnedPool(Device device, const PinnedPoolOptions& options)
    : PinnedPool(pinned_source(device, options.is_numa_local), options) {}

PinnedPool::PinnedPool(std::unique_ptr<PinnedSource> source, const PinnedPoolOptions& options) {
  validate(options);
  state_ = std::make_shared<State>(std::move(source), options);
}

PinnedPool::~PinnedPool() = default;

Tensor PinnedPool::empty(const Dims& shape, DType dtype) {
  const std::int64_t size_bytes = block_size_bytes(shape, dtype);
  if (size_bytes == 0) return Tensor(dense_view(nullptr, dtype, shape), nullptr);
  std::shared_ptr<Block> block = state_->reuse(size_bytes);
  if (block == nullptr) block = state_->allocate(size_bytes);
  const std::shared_ptr<void> owner(block->memory, Return{state_, block});
  return Tensor(dense_view(owner.get(), dtype, shape), owner);
}

void PinnedPool::record(const Tensor& tensor, Stream stream) {
  if (tensor.owner() == nullptr && tensor.numel() == 0) return;
  const auto* owner = std::get_deleter<Return>(tensor.owner());
  if (owner == nullptr || owner->state != state_)
    throw_value_error(
        fmt::format("{} at {} does not share its owner with a tensor of this pool", describe(tensor), tensor.data()));
  if (is_capturing(stream))
    throw_value_error(
        "a pinned tensor's use cannot be recorded while its stream is being captured: the graph uses the memory at "
        "every "
        "replay, so keep the tensor as long as the graph");
  auto mark = state_->source->record(stream);
  const std::lock_guard lock(state_->mutex);
  is_idle(*owner->block);  // forgets old marks, so that a block that is used for long does not gather them
  owner->block->marks.push_back(std::move(mark));
}

void PinnedPool::trim(std::int64_t keep_bytes) {
  state_->trim(keep_bytes);
}

PinnedPoolStatistics PinnedPool::statistics() const {
  const std::lock_guard lock(state_->mutex);
  PinnedPoolStatistics statistics;
  statistics.in_use_bytes = state_->in_use_bytes;
  for (auto& [size_bytes, blocks] : state_->free)
    for (const auto& block : blocks)
      (is_idle(*block) ? statistics.cached_bytes : statistics.pending_bytes) += size_bytes;
  statistics.peak_bytes = state_->peak_bytes;
  statistics.allocations = state_->allocations;
  statistics.reuses = state_->reuses;
  return statistics;
}

}  // namespace kiln
