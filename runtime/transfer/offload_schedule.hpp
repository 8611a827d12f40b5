#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/tensor.hpp"

namespace kiln {

/// What a chunk needs of one tensor in CPU memory.
struct OffloadTensor {
  enum class Direction : std::uint8_t {
    load,            ///< copied to the device before the chunk is computed
    store,           ///< copied back afterwards
    load_and_store,  ///< both, from and to the same place on the device
  };
  TensorView host;
  Direction direction = Direction::load;
};
using OffloadChunk = std::vector<OffloadTensor>;

/// The three stages of a chunk. Steps of one stage run in the order of chunks, each stage on a stream of its own.
enum class OffloadStage : std::uint8_t { load, compute, store };

struct OffloadMark {
  OffloadStage stage;
  std::int64_t chunk;
  bool operator==(const OffloadMark&) const = default;
};

/// One stage of one chunk, and what of the other stages must be done before it starts.
struct OffloadStep {
  OffloadMark mark;
  std::vector<OffloadMark> after;
};

/// The steps of a pipeline in the order in which they are enqueued; a step waits only for steps that come before it.
/// Chunk i uses buffers i % depth: one for what is loaded, one for what is only stored. So
///
/// - compute waits for its load, and a store for its compute;
/// - a load waits until the buffer is free: for the compute of the chunk that had it before, and for that one's store
/// if
///   it stored from there;
/// - compute waits for the store of the chunk that had its output buffer before;
/// - a load from memory that an earlier chunk stores waits for that store.
///
/// A load is enqueued before the compute of the depth - 1 chunks ahead of it, so that a callback which keeps the host
/// busy does not delay it.
std::vector<OffloadStep> offload_schedule(std::span<const OffloadChunk> chunks, int depth);

}  // namespace kiln
