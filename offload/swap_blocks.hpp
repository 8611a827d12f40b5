#pragma once

#include <cstdint>
#include <span>

#include "core/tensor.hpp"
#include "runtime/stream.hpp"

namespace kiln {

/// A block of the source and the block of the destination that becomes its copy. One with a negative side is skipped.
struct BlockPair {
  std::int64_t source, destination;
};

enum class SwapMethod {
  automatic,    ///< whichever moves runs of this length faster; during stream capture the copy engine
  kernel,       ///< op swap_blocks: a few multiprocessors read or write host memory over the bus
  copy_engine,  ///< a copy for each run of blocks that follow one another on both sides; occupies no multiprocessor
};

/// dst[pair.destination] = src[pair.source] for all pairs, in no order, enqueued on `stream`. A block is everything
/// behind dimension 0, [blocks, ...]; blocks are dense, of one shape and dtype in both tensors, and may have gaps
/// between them. Each of the tensors may lie on a GPU or, page-locked (PinnedPool, register_host_memory, torch's
/// pin_memory()), on the host; two of the CPU are copied at once. `pairs` may go when this returns; the tensors' memory
/// must stay until the stream's work is done.
///
/// During stream capture each copy becomes a node of the graph. What a replay copies are the blocks of these pairs; for
/// pairs that change from replay to replay capture op swap_blocks, whose block_mapping lies on the device.
///
/// UsageError before anything runs: value for tensors that do not match or overlap, a pair outside them (negative sides
/// aside), host memory that is not page-locked, `kernel` during stream capture, and a stream of another device; type
/// for dtypes that differ. Two GPUs: only the copy engine.
void swap_blocks(const TensorView& dst, const TensorView& src, std::span<const BlockPair> pairs, Stream stream,
                 SwapMethod method = SwapMethod::automatic);

}  // namespace kiln
