#include "offload/swap_blocks.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "core/errors.hpp"
#include "registry/dispatch/dispatch.hpp"
#include "registry/plan/memory_overlap.hpp"
#include "registry/plan/registry.hpp"
#include "runtime/host_memory.hpp"
#include "runtime/memory.hpp"
#include "runtime/transfer/pinned_pool.hpp"

namespace kiln {
namespace {

/// Runs between host and device from which on a copy for each is as fast as the kernel, and leaves it no multiprocessor
/// to occupy: docs/kv-cache.md has the measurement. Within a device the kernel was faster at every length.
constexpr std::int64_t kCopyEngineRunBytes = 2 << 20;

/// Bytes that lie together on both sides.
struct Run {
  std::int64_t source_bytes, destination_bytes, size_bytes;
};

std::int64_t block_bytes_of(const TensorView& view) {
  std::int64_t bytes = itemsize_bytes(view.dtype);
  for (int axis = 1; axis < view.ndim(); ++axis) bytes *= view.shape[axis];
  return bytes;
}

std::int64_t stride_bytes_of(const TensorView& view) {
  return view.strides[0] * itemsize_bytes(view.dtype);
}

/// What the op says of such tensors, and what it would find out on the device only where asked.
void check(const TensorView& dst, const TensorView& src, std::span<const BlockPair> pairs) {
  const TensorView no_pairs = dense_view(nullptr, DType::i64, {0, 2});
  const TensorView inputs[] = {dst, src, no_pairs};
  Registry::process().get("swap_blocks").infer(inputs, {});
  if (dst.device == src.device && dst.numel() > 0 && src.numel() > 0 && !provably_disjoint(dst, src))
    throw_value_error(fmt::format("swap_blocks: 'dst' ({}) and 'src' ({}) overlap in memory; copy one of them first",
                                  describe(dst), describe(src)));
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    const BlockPair pair = pairs[i];
    if (pair.source < 0 || pair.destination < 0) continue;
    if (pair.source >= src.shape[0] || pair.destination >= dst.shape[0])
      throw_value_error(
          fmt::format("swap_blocks: pair {} copies block {} of 'src', which has {}, to block {} of 'dst', "
                      "which has {}; a negative number skips a pair",
                      i, pair.source, src.shape[0], pair.destination, dst.shape[0]));
  }
}

/// Refuses host memory that a GPU cannot reach: a copy from it would hold up the host, and nothing would say so.
void check_pinned(const TensorView& view, Device device) {
  if (device.is_cuda() && !view.device.is_cuda()) device_pointer(view, device);
}

std::vector<Run> runs_of(const TensorView& dst, const TensorView& src, std::span<const BlockPair> pairs) {
  const std::int64_t block_bytes = block_bytes_of(dst);
  std::vector<Run> runs;
  for (const BlockPair pair : pairs) {
    if (pair.source < 0 || pair.destination < 0 || block_bytes == 0) continue;
    const Run next{pair.source * stride_bytes_of(src), pair.destination * stride_bytes_of(dst), block_bytes};
    if (!runs.empty()) {
      Run& last = runs.back();
      if (last.source_bytes + last.size_bytes == next.source_bytes &&
          last.destination_bytes + last.size_bytes == next.destination_bytes) {
        last.size_bytes += block_bytes;
        continue;
      }
    }
    runs.push_back(next);
  }
  return runs;
}

TensorView bytes_at(const TensorView& view, std::int64_t offset_bytes, std::int64_t size_bytes) {
  return dense_view(static_cast<std::byte*>(view.data) + offset_bytes, DType::u8, {size_bytes}, view.device);
}

void copy_runs(const TensorView& dst, const TensorView& src, std::span<const Run> runs, Stream stream) {
  for (const Run& run : runs)
    copy(bytes_at(dst, run.destination_bytes, run.size_bytes), bytes_at(src, run.source_bytes, run.size_bytes), stream);
}

/// Page-locked memory for the pairs on their way to a GPU; never taken down, as static objects may still copy when the
/// process ends.
PinnedPool& mapping_pool(Device device) {
  static auto* const mutex = new std::mutex;
  static auto* const pools = new std::map<std::int32_t, std::unique_ptr<PinnedPool>>;
  const std::lock_guard lock(*mutex);
  std::unique_ptr<PinnedPool>& pool = (*pools)[device.index];
  if (pool == nullptr) pool = std::make_unique<PinnedPool>(device);
  return *pool;
}

/// The pairs as the op takes them, on `stream`'s device.
Tensor mapping_on_device(std::span<const BlockPair> pairs, Stream stream) {
  static_assert(sizeof(BlockPair) == 2 * sizeof(std::int64_t));
  const Dims shape{static_cast<std::int64_t>(pairs.size()), 2};
  PinnedPool& pool = mapping_pool(stream.device);
  const Tensor staging = pool.empty(shape, DType::i64);
  std::memcpy(staging.data(), pairs.data(), pairs.size_bytes());
  Tensor mapping = empty(shape, DType::i64, stream);
  copy(mapping, staging, stream);
  pool.record(staging, stream);
  return mapping;
}

SwapMethod choose(const TensorView& dst, const TensorView& src, std::span<const Run> runs, Stream stream) {
  if (is_capturing(stream)) return SwapMethod::copy_engine;
  if (dst.device == src.device) return SwapMethod::kernel;
  if (dst.device.is_cuda() && src.device.is_cuda()) return SwapMethod::copy_engine;
  std::int64_t total_bytes = 0;
  for (const Run& run : runs) total_bytes += run.size_bytes;
  const bool is_long = total_bytes / static_cast<std::int64_t>(runs.size()) >= kCopyEngineRunBytes;
  return is_long ? SwapMethod::copy_engine : SwapMethod::kernel;
}

}  // namespace

void swap_blocks(const TensorView& dst, const TensorView& src, std::span<const BlockPair> pairs, Stream stream,
                 SwapMethod method) {
  check(dst, src, pairs);
  const Device device = dst.device.is_cuda() ? dst.device : src.device;
  if (stream.device != device && stream.device != src.device)
    throw_value_error(fmt::format("swap_blocks: the stream is of {}, but the copies take place on {}",
                                  to_string(stream.device), to_string(device)));
  check_pinned(dst, device);
  check_pinned(src, device);
  const std::vector<Run> runs = runs_of(dst, src, pairs);
  if (runs.empty()) return;
  if (!device.is_cuda()) return copy_runs(dst, src, runs, stream);
  if (method == SwapMethod::automatic) method = choose(dst, src, runs, stream);
  if (method == SwapMethod::copy_engine) return copy_runs(dst, src, runs, stream);
  if (is_capturing(stream))
    throw_value_error(
        "swap_blocks: the kernel reads the pairs from memory that would be gone when the captured graph is replayed; "
        "capture op swap_blocks with a block_mapping on the device, or choose the copy engine");
  const Tensor mapping = mapping_on_device(pairs, stream);
  dispatch_gpu_op("swap_blocks", {Tensor(dst, nullptr), Tensor(src, nullptr), mapping}, {}, {.stream = stream});
}

}  // namespace kiln
