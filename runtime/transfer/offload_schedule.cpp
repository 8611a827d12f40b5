#include "runtime/transfer/offload_schedule.hpp"

#include <algorithm>
#include <cstddef>

namespace kiln {
namespace {

constexpr std::int64_t kNone = -1;

bool has(const OffloadChunk& chunk, OffloadTensor::Direction direction) {
  return std::any_of(chunk.begin(), chunk.end(),
                     [&](const OffloadTensor& tensor) { return tensor.direction == direction; });
}

bool overlap(const ByteRange& a, const ByteRange& b) {
  return a.begin < b.end && b.begin < a.end;
}

/// Chunk by chunk, the last earlier chunk that stores memory which this one loads, or kNone.
std::vector<std::int64_t> stored_before(std::span<const OffloadChunk> chunks) {
  struct Stored {
    ByteRange range;
    std::int64_t chunk;
  };
  std::vector<Stored> stored;
  std::vector<std::int64_t> last;
  for (const OffloadChunk& chunk : chunks) {
    std::int64_t latest = kNone;
    for (const OffloadTensor& tensor : chunk) {
      if (tensor.direction == OffloadTensor::Direction::store) continue;
      const ByteRange range = byte_range(tensor.host);
      for (const Stored& earlier : stored)
        if (overlap(earlier.range, range)) latest = std::max(latest, earlier.chunk);
    }
    for (const OffloadTensor& tensor : chunk)
      if (tensor.direction != OffloadTensor::Direction::load)
        stored.push_back({byte_range(tensor.host), static_cast<std::int64_t>(last.size())});
    last.push_back(latest);
  }
  return last;
}

class Scheduler {
 public:
  Scheduler(std::span<const OffloadChunk> chunks, int depth)
      : chunks_(chunks),
        depth_(depth),
        stored_before_(stored_before(chunks)),
        input_stores_(static_cast<std::size_t>(depth), kNone),
        output_stores_(static_cast<std::size_t>(depth), kNone) {}

  std::vector<OffloadStep> steps() && {
    const auto count = static_cast<std::int64_t>(chunks_.size());
    std::int64_t next_load = 0;
    for (std::int64_t chunk = 0; chunk < count; ++chunk) {
      // Loads keep their order: one whose memory is yet to be stored holds back those behind it.
      while (next_load < std::min(count, chunk + depth_) && stored_before_[at(next_load)] < chunk) load(next_load++);
      compute(chunk);
      store(chunk);
    }
    return std::move(steps_);
  }

 private:
  static std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }
  bool loads(const OffloadChunk& chunk) const {
    return has(chunk, OffloadTensor::Direction::load) || has(chunk, OffloadTensor::Direction::load_and_store);
  }

  void load(std::int64_t chunk) {
    if (!loads(chunks_[at(chunk)])) return;
    std::int64_t& input_store = input_stores_[at(chunk % depth_)];
    const std::int64_t previous = chunk - depth_;
    OffloadStep step{{OffloadStage::load, chunk}, {}};
    // A chunk's store comes after its compute, so that waiting for both would say the same twice.
    if (previous >= 0 && input_store != previous) step.after.push_back({OffloadStage::compute, previous});
    if (const std::int64_t store = std::max(input_store, stored_before_[at(chunk)]); store != kNone)
      step.after.push_back({OffloadStage::store, store});
    input_store = kNone;
    steps_.push_back(std::move(step));
  }

  void compute(std::int64_t chunk) {
    OffloadStep step{{OffloadStage::compute, chunk}, {}};
    if (loads(chunks_[at(chunk)])) step.after.push_back({OffloadStage::load, chunk});
    if (has(chunks_[at(chunk)], OffloadTensor::Direction::store)) {
      std::int64_t& output_store = output_stores_[at(chunk % depth_)];
      if (output_store != kNone) step.after.push_back({OffloadStage::store, output_store});
      output_store = chunk;
    }
    if (has(chunks_[at(chunk)], OffloadTensor::Direction::load_and_store)) input_stores_[at(chunk % depth_)] = chunk;
    steps_.push_back(std::move(step));
  }

  void store(std::int64_t chunk) {
    if (has(chunks_[at(chunk)], OffloadTensor::Direction::store) ||
        has(chunks_[at(chunk)], OffloadTensor::Direction::load_and_store))
      steps_.push_back({{OffloadStage::store, chunk}, {{OffloadStage::compute, chunk}}});
  }

  std::span<const OffloadChunk> chunks_;
  int depth_;
  std::vector<std::int64_t> stored_before_;
  /// By buffer: the last chunk that stores from it, while no load waits for that.
  std::vector<std::int64_t> input_stores_, output_stores_;
  std::vector<OffloadStep> steps_;
};

}  // namespace

std::vector<OffloadStep> offload_schedule(std::span<const OffloadChunk> chunks, int depth) {
  return Scheduler(chunks, depth).steps();
}

}  // namespace kiln
