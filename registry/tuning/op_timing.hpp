#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "autotune/tuning_entry.hpp"
#include "registry/dispatch/dispatch.hpp"
#include "runtime/graph.hpp"

namespace kiln {

/// Times calls of one kind as a measuring policy says: eager launches or the replay of a graph, with the L2 cache full
/// of the call's own data or of something else. Calls too short for a timer are timed several at a time where the
/// caches stay hot; where they are flushed before each, one at a time. On the CPU there are no graphs, and caches stay
/// hot.
class CallTiming {
 public:
  /// `call` enqueues its work on the stream it is given. What it throws passes through.
  CallTiming(std::function<void(Stream)> call, Stream stream, MeasuringPolicy policy);
  /// Adds a call that does the same, in a way that a time should not depend on: each sample is the next call's.
  void add_call(std::function<void(Stream)> call);
  std::size_t num_calls() const noexcept { return calls_.size(); }

  /// Microseconds of one call each, in the order taken.
  std::vector<double> samples_us(int count) const;

 private:
  void run() const;

  std::vector<std::function<void(Stream)>> calls_;
  Stream stream_;
  MeasuringPolicy policy_;
  int calls_per_sample_ = 1;
  std::optional<OwnedStream> capture_stream_;  ///< the default stream cannot be captured
  std::vector<Graph> graphs_;                  ///< one for each call, or none
  mutable std::size_t next_ = 0;
};

/// Times calls of an op.
class OpTiming : public CallTiming {
 public:
  /// Of calls over these tensors, whose memory must outlive the object. UsageError as ResolvedOp's call; DeviceError.
  OpTiming(const ResolvedOp& op, std::span<const TensorView> inputs, std::span<const TensorView> outputs, Stream stream,
           MeasuringPolicy policy);
};

/// What holds where nothing else is asked for: each call launched on its own, over a flushed L2 cache on a GPU, which
/// is what most calls of a model find; hot on the CPU.
MeasuringPolicy default_measuring_policy(Device device) noexcept;

}  // namespace kiln
