#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/graph_call.hpp"
#include "runtime/graph_memory.hpp"
#include "runtime/observers.hpp"
#include "runtime/stream_handle.hpp"

namespace kiln {

/// One call of a graph, as the layer that recorded it knows it. Graphs share it and nobody changes it: an update puts
/// another in its place.
class RecordedCall {
 public:
  virtual ~RecordedCall() = default;
  virtual GraphCall describe() const = 0;
  /// Does the work, of a call on the CPU.
  virtual void run() const = 0;
  /// Why a graph that holds this call cannot hold `other` in its place; empty when it can.
  virtual std::string difference(const RecordedCall& other) const = 0;
  /// The same call over other memory. UsageError for tensors it was not recorded with; not_implemented for work that is
  /// no op's.
  virtual std::shared_ptr<const RecordedCall> with_tensors(std::span<const TensorView> inputs,
                                                           std::span<const TensorView> outputs) const;
  /// The kernel nodes it added to a CUDA graph, in launch order; null where a launch had no programs.
  virtual std::span<void* const> nodes() const noexcept { return {}; }
  /// Gives `nodes` of an instantiated CUDA graph, which are those of the call in whose place this one is put, this
  /// call's parameters. DeviceError.
  virtual void write_to(void* executable, std::span<void* const> nodes) const;
};

/// Memory that a graph's work names, held as long as the graph.
struct GraphHoldings {
  std::shared_ptr<GraphMemory> memory;
  std::vector<std::shared_ptr<void>> owners;
};

/// A recording in progress. Several threads may add to it, from streams that were forked off the recorded one.
class Recording {
 public:
  /// `capture_id` is the driver's; 0 on the CPU.
  Recording(Stream stream, std::uint64_t capture_id);

  /// The recording that memory allocated on `stream` belongs to; null when there is none of Kiln's. The CPU has no
  /// stream handles, so that a recording there is that of the calling thread.
  static std::shared_ptr<Recording> of(Stream stream);
  /// The recording that work enqueued on `stream` becomes part of; null when nobody records it. UsageError(value)
  /// naming `what` (an op, "copy") where this thread is in the body of a recording and `stream` is in none: the work
  /// would run now and be in no graph.
  static std::shared_ptr<Recording> of_work(Stream stream, std::string_view what);
  /// Whether this thread is in the body of a recording on `device`.
  static bool is_on_this_thread(Device device) noexcept;

  /// Held from what a call enqueues until it is added: threads that share a stream would otherwise take each other's
  /// nodes for their own, and be listed in another order than they run in.
  std::unique_lock<std::mutex> lock_calls() { return std::unique_lock(call_mutex_); }
  void add(std::shared_ptr<const RecordedCall> call);
  /// Keeps what owns `memory`, unless it is the graph's own.
  void keep(const std::shared_ptr<void>& owner, const void* memory);

  Stream stream() const noexcept { return stream_; }
  std::uint64_t capture_id() const noexcept { return capture_id_; }
  GraphMemory& memory() const noexcept { return *holdings_->memory; }
  /// Once the recording has ended.
  std::vector<std::shared_ptr<const RecordedCall>> take_calls() noexcept { return std::move(calls_); }
  std::shared_ptr<GraphHoldings> holdings() const noexcept { return holdings_; }

 private:
  Stream stream_;
  std::uint64_t capture_id_;
  std::shared_ptr<GraphHoldings> holdings_;
  std::mutex call_mutex_;
  std::mutex mutex_;  ///< of what is below and of the owners
  std::vector<std::shared_ptr<const RecordedCall>> calls_;
};

/// Lets Recording::of find a recording while it lives, on the thread that records.
class RecordingScope {
 public:
  explicit RecordingScope(std::shared_ptr<Recording> recording);
  ~RecordingScope();
  RecordingScope(const RecordingScope&) = delete;
  RecordingScope& operator=(const RecordingScope&) = delete;

 private:
  std::shared_ptr<Recording> recording_;
  ObserverCount observes_;
};

}  // namespace kiln
