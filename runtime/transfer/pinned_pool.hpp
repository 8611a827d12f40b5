#pragma once

#include <cstdint>
#include <memory>

#include "core/tensor.hpp"
#include "runtime/stream.hpp"

namespace kiln {

class PinnedSource;

struct PinnedPoolOptions {
  std::int64_t alignment_bytes = 4096;  ///< of every block; a power of two, a page or more
  /// Most memory kept for reuse while no tensor holds it; the least recently freed goes first.
  std::int64_t max_cached_bytes = std::int64_t{8} << 30;
  bool is_numa_local = true;  ///< on the memory node nearest to the GPU, where the machine has several
};

struct PinnedPoolStatistics {
  std::int64_t in_use_bytes = 0;   ///< held by tensors
  std::int64_t pending_bytes = 0;  ///< let go by their tensors while a stream was still using them
  std::int64_t cached_bytes = 0;   ///< ready for reuse
  std::int64_t peak_bytes = 0;     ///< the most that all three together came to
  std::int64_t allocations = 0;    ///< blocks that the system was asked for
  std::int64_t reuses = 0;         ///< blocks that were handed out again
};

/// Page-locked CPU memory for one GPU's transfers: copies from and to it run at the bus's speed beside other work, and
/// kernels reach it directly (device_pointer). Blocks are as large as asked for, rounded up to a page and never to a
/// power of two, and are reused for requests of the same number of pages. All members may be called from any thread;
/// tensors may outlive the pool.
///
/// A block that its tensor lets go is handed out again only when the work recorded on it is done:
///
///     Tensor staging = pool.empty({rows, 656}, DType::u8);
///     fill(staging);
///     copy(on_device, staging, stream);
///     pool.record(staging, stream);  // now `staging` may go at any time
///
/// A pool of the CPU, PinnedPool(Device::cpu()), hands out ordinary memory with the same alignment, so that one program
/// serves both.
class PinnedPool {
 public:
  /// UsageError(value) for an alignment or a bound that makes no sense; DeviceError when the GPU is absent.
  explicit PinnedPool(Device device, const PinnedPoolOptions& options = {});
  /// With memory and marks from elsewhere; for tests of what the pool does with them.
  explicit PinnedPool(std::unique_ptr<PinnedSource> source, const PinnedPoolOptions& options = {});
  ~PinnedPool();
  PinnedPool(const PinnedPool&) = delete;
  PinnedPool& operator=(const PinnedPool&) = delete;

  /// Uninitialised, dense, on the CPU. UsageError for a negative extent; DeviceError when memory is short even after
  /// what is cached was given back, saying how much was asked for.
  Tensor empty(const Dims& shape, DType dtype);

  /// Marks the work enqueued on `stream` so far as using the memory of `tensor`, which may be any tensor that shares
  /// its owner with one of this pool's. UsageError(value) for a tensor that is not this pool's, and while `stream` is
  /// being captured: a graph uses the memory at every replay, so the tensor must live as long as the graph.
  void record(const Tensor& tensor, Stream stream);

  /// Gives cached memory back to the system until at most `keep_bytes` stay. Blocks that are in use or pending stay.
  void trim(std::int64_t keep_bytes = 0);
  PinnedPoolStatistics statistics() const;

 private:
  struct State;
  struct Return;
  std::shared_ptr<State> state_;  ///< tensors hold it too
};

}  // namespace kiln
