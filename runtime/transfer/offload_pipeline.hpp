#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "runtime/stream.hpp"
#include "runtime/transfer/offload_schedule.hpp"

namespace kiln {

/// When one stage of a chunk ran, in microseconds behind the start of its run.
struct OffloadSpan {
  OffloadMark mark;
  double start_us = 0, end_us = 0;
};

/// Runs chunks of work whose data lies in CPU memory through a GPU: while one chunk is computed, the next ones are
/// copied to the device and the results of earlier ones are copied back, each direction on a stream and a copy engine
/// of its own.
///
///     OffloadPipeline pipeline(Device::cuda(0));
///     std::vector<OffloadChunk> layers;  // {{weights, load}, {activations, load_and_store}, ...}, in pinned memory
///     pipeline.run(layers, [&](std::int64_t layer, std::span<const Tensor> on_device, Stream stream) {
///       ... enqueue the layer's kernels on `stream` ...
///     }, stream);
///     synchronize(stream);
///
/// The order is kept by events alone (runtime/transfer/offload_schedule.hpp says which); the host never waits, so a
/// callback that does stalls nothing but itself. On the CPU the same calls run one after the other, through buffers
/// too. One thread at a time may use a pipeline.
class OffloadPipeline {
 public:
  /// Enqueues chunk `chunk`'s work on `stream`. `tensors` are the device's copies of the chunk's tensors, in its order,
  /// dense, the chunk's until the callback's work on `stream` is done: later chunks write over them. Those of direction
  /// `store` hold nothing yet. They share the pipeline's memory, which may outlive a larger run's new one and must not
  /// outlive the pipeline. Work on other streams must be ordered with `stream` by events.
  using Compute = std::function<void(std::int64_t chunk, std::span<const Tensor> tensors, Stream stream)>;

  /// What is enqueued and what waits for what.
  using Schedule = std::function<std::vector<OffloadStep>(std::span<const OffloadChunk>, int depth)>;

  /// `depth` chunks have memory on the device at a time. 2 lets copies run beside compute where no tensor is loaded and
  /// stored in the same place; 3 always; more evens out chunks whose times differ. Another `schedule` than Kiln's is
  /// for tests of what goes wrong without a wait. One that `is_timed` notes when each stage runs, for spans(), which
  /// costs the device two marks with a time for each. UsageError(value) for a depth below 1; DeviceError when the
  /// device is absent.
  explicit OffloadPipeline(Device device, int depth = 3, Schedule schedule = offload_schedule, bool is_timed = false);
  /// Waits for everything that still runs.
  ~OffloadPipeline();
  OffloadPipeline(const OffloadPipeline&) = delete;
  OffloadPipeline& operator=(const OffloadPipeline&) = delete;

  /// Calls `compute` for every chunk in order, between the copies of its tensors. Returns when all is enqueued: what
  /// was on `stream` before comes first, and `stream` is done when the last result is in CPU memory. The CPU's tensors,
  /// which the chunks only borrow, must stay until then. A chunk may load what an earlier chunk stores. Device memory
  /// is allocated at the first run and kept: `depth` times the largest chunk. A run that needs more than those before
  /// it waits until they are done.
  ///
  /// Before anything runs: UsageError(value) for a tensor that is not dense, not in CPU memory or, on a GPU, not
  /// page-locked (copies would silently wait for the host), for a `stream` of another device or one that is being
  /// captured. Exceptions of `compute` pass through once everything enqueued so far is done; results of chunks before
  /// are complete then, and the pipeline can be used again.
  void run(std::span<const OffloadChunk> chunks, const Compute& compute, Stream stream);

  /// When the stages of the last run ran, in the order in which they were enqueued; none before the first run. Waits
  /// for them. A stage that copies nothing is as short as its marks are apart. After an exception of `compute`: what
  /// was done before. UsageError(value) for a pipeline that is not timed; DeviceError when work before a mark failed.
  std::vector<OffloadSpan> spans() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace kiln
