#pragma once

#include <cstdint>
#include <memory>

#include "core/tensor.hpp"
#include "runtime/stream.hpp"

namespace kiln {

struct PackedGatherOptions {
  std::int64_t chunk_bytes = std::int64_t{16} << 20;  ///< of rows in one copy: long enough that starting it is nothing
  int depth = 3;                                      ///< chunks that are packed, sent or placed at a time
};

/// Rows of a large pool in CPU memory to a GPU by way of its copy engine: CPU threads pack the rows of a chunk side by
/// side into pinned memory, the copy engine sends it while the next one is packed, and a kernel puts the rows where
/// they belong.
///
///     PackedGather gather(Device::cuda(0));
///     gather(dst, pool, indices, stream);  // dst[j] = pool[i] for each pair (i, j)
///
/// The other way to the same result is the op sparse_kv_gather, in which the GPU reads the rows itself. That needs
/// neither threads nor a wait of the host, and on an H200 it is the faster one in pools of 188 MiB to 24 GiB since it
/// sorts pairs. This one takes pageable memory too and no multiprocessor but for placing rows. It keeps all threads of
/// the CPU busy (KILN_NUM_THREADS bounds them) and is bound by how fast they read the pool. Packing is a kernel of the
/// CPU target, so a build without that cannot do it.
///
/// One thread at a time may use a PackedGather. Its pinned memory, `depth` chunks and two lists of the pairs, is kept
/// for the next call.
class PackedGather {
 public:
  /// UsageError(value) for options below 1; DeviceError when the device is absent. With Device::cpu() the same work is
  /// done through ordinary memory.
  explicit PackedGather(Device device, const PackedGatherOptions& options = {});
  /// Waits until its pinned memory is idle.
  ~PackedGather();
  PackedGather(const PackedGather&) = delete;
  PackedGather& operator=(const PackedGather&) = delete;

  /// dst[j] = src[i] for each pair (i, j) of `indices` [requests, topk, 2], bit for bit; pairs with a negative number
  /// are skipped, and rows of dst named once at most. `dst` lies on the device, `src` in CPU memory, `indices` (i32 or
  /// i64) in either; from the device it is copied first, which waits for all of its work. Rows are as sparse_kv_gather
  /// takes them: all of dimension 1 and up, dense, of one dtype and shape in dst and src, with any stride between them.
  ///
  /// Returns when all rows are packed: src and indices may change then, and `stream` has dst. UsageError, before
  /// anything is written: shapes, dtypes and devices that do not go together, a pair that names a row which does not
  /// exist (always checked), and a stream that is being captured.
  void operator()(const Tensor& dst, const Tensor& src, const Tensor& indices, Stream stream);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace kiln
