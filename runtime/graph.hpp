#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/graph_call.hpp"
#include "runtime/stream.hpp"

namespace kiln {

class Recording;

/// Work of one stream and of those forked off it, recorded once by kiln::capture and replayed with one call. On the CPU
/// it is the list of recorded calls, with the same meaning.
///
/// What it launches reads and writes the addresses that were given when it was recorded. The graph holds the owners of
/// the Tensors that dispatch_gpu_op was given; memory that it was given as views (ResolvedOp, copy) is the caller's to
/// keep. What was allocated on the stream while it was recorded is the graph's own: each replay writes it again, and it
/// stays as long as the graph or a Tensor in it.
///
/// Launches of one graph write the same memory: its own, results and scratch memory alike, and the outputs it was
/// given. CUDA runs them one after the other whatever their streams; on the CPU two threads must not be in one at once,
/// unless it has no memory of its own (memory_bytes() is 0) and its outputs allow it. A graph that was launched in the
/// body of others shares its memory with them: launches of any two of these must not overlap, which is for the caller
/// to see to on a GPU as well. So is that no two threads call launch or update on one CUDA graph at once. Destroying a
/// graph whose launch is still running is fine.
class Graph {
 public:
  ~Graph();
  Graph(Graph&& other) noexcept;
  Graph& operator=(Graph&& other) noexcept;

  /// Enqueues the recorded work on a stream of the same device; on the CPU, does it. A launch on a stream that is being
  /// captured becomes part of that graph, as this one is now. UsageError(value) for a graph that was moved from and for
  /// a stream of another device; DeviceError.
  void launch(Stream stream) const;

  /// How many calls were recorded: ops, copies, fills and launches of graphs made through Kiln, in the order they were
  /// made. Work that others enqueued is replayed too, but not counted.
  std::size_t num_calls() const;
  /// UsageError(value) for a call that there is not.
  GraphCall call(std::size_t index) const;
  Device device() const;
  /// Bytes of device memory that are the graph's own.
  std::int64_t memory_bytes() const;

  /// Gives one recorded op other memory, from the next launch on: tensors of the same shapes, strides, dtypes and
  /// devices, which the caller keeps. Costs neither a capture nor an instantiation. UsageError naming the tensor
  /// otherwise, or (not_implemented) for a call that is no op's; the graph is then as before. After a DeviceError a
  /// call of several kernels may be updated in part: update it again, or throw the graph away. Memory that the call
  /// used before stays with the graph.
  void update(std::size_t call, std::span<const TensorView> inputs, std::span<const TensorView> outputs);
  /// Records `body` anew and changes the graph to it, from the next launch on, without an instantiation: other
  /// addresses, numbers and sizes, as long as the same ops run the same kernels in the same order. UsageError(value)
  /// saying what differs otherwise, and all errors of capture; the graph is then as before.
  void update(Stream stream, const std::function<void()>& body);

 private:
  friend Graph capture(Stream stream, const std::function<void()>& body);
  friend class GraphCapture;
  struct State;
  explicit Graph(std::unique_ptr<State> state) noexcept;
  State& state() const;
  static void launch_state(const State& state, Stream stream, Recording* recording);
  std::unique_ptr<State> state_;
};

/// Records what `body` enqueues on `stream`; nothing runs. `body` dispatches on `stream`, or on streams that it forks
/// off it and joins again. What would spoil the recording or be missing from it is refused with a UsageError that names
/// the remedy, and the recording goes on if the body catches it: calls that are not compiled and loaded (see warm_up),
/// tuning, checks of data, waiting for the device, copies of pageable memory, work that this thread enqueues on streams
/// outside of the recording. Exceptions of `body` end the recording and pass through; the stream is usable afterwards.
///
/// On the CPU the recording is of the calling thread: what it dispatches, copies and fills on the CPU is recorded.
///
/// UsageError(value) for CUDA's default stream, which cannot be recorded, and for a stream that is being recorded
/// already; DeviceError, for one when a forked stream was not joined.
Graph capture(Stream stream, const std::function<void()>& body);

/// A capture in two halves, for a body that is no function, such as a `with` block of Python: what `capture` says of
/// its body holds for what is done between the constructor and `end`. Both, and the destructor, belong on one thread.
class GraphCapture {
 public:
  /// Begins to record `stream`. Errors as capture.
  explicit GraphCapture(Stream stream);
  /// Ends a recording that `end` has not ended, as an exception of the body does.
  ~GraphCapture();
  GraphCapture(const GraphCapture&) = delete;
  GraphCapture& operator=(const GraphCapture&) = delete;

  /// The graph of what was recorded. UsageError(value) for a capture that was ended before, and on another thread.
  Graph end();
  /// Changes `graph` to what was recorded, as Graph::update(stream, body) does.
  void end(Graph& graph);

 private:
  struct State;
  State& state() const;
  std::unique_ptr<State> state_;
};

/// As capture, but adds the work to `cuda_graph`, a CUgraph of the caller's, after the nodes `dependencies` of it.
/// Returns the nodes that later work has to depend on. What the recording allocated and held lives as long as that
/// graph and whatever is instantiated of it. When it fails, the nodes it added are gone. UsageError(not_implemented)
/// for a stream of the CPU; DeviceError for a driver older than CUDA 12.3.
std::vector<void*> capture_into(void* cuda_graph, std::span<void* const> dependencies, Stream stream,
                                const std::function<void()>& body);

}  // namespace kiln
