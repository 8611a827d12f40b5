#pragma once

#include <span>
#include <vector>

#include "autotune/tuning_entry.hpp"
#include "registry/dispatch.hpp"
#include "runtime/graph.hpp"

namespace kiln {

/// Times calls of one op as a measuring policy says: eager launches or the replay of a graph, with the L2 cache full of
/// the call's own data or of something else. Calls too short for a timer are timed several at a time where the caches
/// stay hot; where they are flushed before each, one at a time. On the CPU there are no graphs, and caches stay hot.
class OpTiming {
 public:
  /// Of calls over these tensors, whose memory must outlive the object. UsageError as ResolvedOp's call; DeviceError.
  OpTiming(const ResolvedOp& op, std::span<const TensorView> inputs, std::span<const TensorView> outputs, Stream stream,
           MeasuringPolicy policy);

  /// Microseconds of one call each, in the order taken.
  std::vector<double> samples_us(int count) const;

 private:
  void run() const;

  ResolvedOp op_;
  std::vector<TensorView> inputs_, outputs_;
  Stream stream_;
  MeasuringPolicy policy_;
  int calls_per_sample_ = 1;
  std::optional<OwnedStream> capture_stream_;  ///< the default stream cannot be captured
  std::optional<Graph> graph_;
};

/// What holds where nothing else is asked for: each call launched on its own, over a flushed L2 cache on a GPU, which
/// is what most calls of a model find; hot on the CPU.
MeasuringPolicy default_measuring_policy(Device device) noexcept;

}  // namespace kiln
