#include "runtime/graph.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "core/errors.hpp"
#include "runtime/capture_turn.hpp"
#include "runtime/device_access.hpp"
#include "runtime/observers.hpp"
#include "runtime/recording.hpp"

#if KILN_HAS_CUDA
#include "runtime/cuda_context.hpp"
#include "runtime/cuda_driver.hpp"
#include "runtime/cuda_graph_holdings.hpp"
#include "runtime/cuda_memory.hpp"
#endif

namespace kiln {
namespace {

using Calls = std::vector<std::shared_ptr<const RecordedCall>>;

/// A graph of the driver's that is not instantiated.
class DriverGraph {
 public:
  explicit DriverGraph(void* handle = nullptr) noexcept : handle_(handle) {}
  ~DriverGraph() {
#if KILN_HAS_CUDA
    if (handle_ != nullptr) cuda::destroy_graph(handle_);
#endif
  }
  DriverGraph(DriverGraph&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  DriverGraph& operator=(DriverGraph&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  void* get() const noexcept { return handle_; }

 private:
  void* handle_;
};

struct Recorded {
  Calls calls;
  std::shared_ptr<GraphHoldings> holdings;
  DriverGraph graph;
};

[[noreturn]] void refuse_nested(Stream stream) {
  throw_value_error(
      fmt::format("the stream of {} is being captured already; a capture within a capture would be two graphs of one "
                  "stream: record "
                  "the inner one before, and launch it in the body of the outer one",
                  to_string(stream.device)));
}

void require_capturable(Stream stream) {
  require_cuda_device(stream.device);
  if (stream.handle == nullptr)
    throw_value_error(
        "CUDA cannot record the default stream; give a stream of your own (OwnedStream; in Python kiln.Stream)");
  if (is_capturing(stream)) refuse_nested(stream);
}

#if KILN_HAS_CUDA
/// What goes on around a capture, whether it ends well or not.
struct CaptureFrame {
  explicit CaptureFrame(Device device) : turn(device) { cuda::drop_finished_holdings(); }
  ~CaptureFrame() { cuda::free_deferred(); }
  CaptureFrame(const CaptureFrame&) = delete;
  CaptureFrame& operator=(const CaptureFrame&) = delete;
  CaptureTurn turn;
};

/// Runs `body` while `stream`, whose capture has begun, is recorded. `recording` is the caller's, so that after an
/// exception its memory is freed when the capture has ended.
void run_body(Stream stream, const std::function<void()>& body, std::shared_ptr<Recording>& recording) {
  recording = std::make_shared<Recording>(stream, cuda::capture_id(stream.handle));
  const RecordingScope scope(recording);
  body();
}
#endif

/// A recording that has begun. It ends on the thread that began it, and without `end` as after an exception.
class OpenRecording {
 public:
  explicit OpenRecording(Stream stream) : OpenRecording(stream, NotBegun()) { begin(); }
  ~OpenRecording() {
    scope_.reset();
#if KILN_HAS_CUDA
    if (!is_capturing_) return;
    const cuda::CurrentContext current(cuda::primary_context(stream_.device.index), stream_.device.index);
    cuda::abandon_capture(stream_.handle);
    recording_.reset();  // its memory is freed when the capture has ended
#endif
  }
  OpenRecording(const OpenRecording&) = delete;
  OpenRecording& operator=(const OpenRecording&) = delete;

  Stream stream() const noexcept { return stream_; }

  Recorded end() {
    scope_.reset();
    DriverGraph graph;
#if KILN_HAS_CUDA
    if (is_capturing_) {
      const cuda::CurrentContext current(cuda::primary_context(stream_.device.index), stream_.device.index);
      is_capturing_ = false;
      graph = DriverGraph(cuda::end_capture(stream_.handle));
    }
    frame_.reset();
#endif
    return {recording_->take_calls(), recording_->holdings(), std::move(graph)};
  }

 private:
  struct NotBegun {};
  OpenRecording(Stream stream, NotBegun) noexcept : stream_(stream) {}  // the destructor is for a failed begin too

  void begin() {
    std::uint64_t capture_id = 0;
    if (stream_.device.is_cuda()) {
      require_capturable(stream_);
#if KILN_HAS_CUDA
      const cuda::CurrentContext current(cuda::primary_context(stream_.device.index), stream_.device.index);
      frame_.emplace(stream_.device);
      cuda::begin_capture(stream_.handle);
      is_capturing_ = true;
      capture_id = cuda::capture_id(stream_.handle);
#else
      throw InternalError("a build without the NVIDIA target got as far as recording a CUDA stream");
#endif
    } else if (Recording::is_on_this_thread(stream_.device)) {
      refuse_nested(stream_);
    }
    recording_ = std::make_shared<Recording>(stream_, capture_id);
    scope_.emplace(recording_);
  }

  Stream stream_;
#if KILN_HAS_CUDA
  std::optional<CaptureFrame> frame_;
  bool is_capturing_ = false;
#endif
  std::shared_ptr<Recording> recording_;
  std::optional<RecordingScope> scope_;
};

Recorded record(Stream stream, const std::function<void()>& body) {
  OpenRecording open(stream);
#if KILN_HAS_CUDA
  // Whatever else the body calls finds the stream's device current.
  std::optional<cuda::CurrentContext> current;
  if (stream.device.is_cuda()) current.emplace(cuda::primary_context(stream.device.index), stream.device.index);
#endif
  body();
  return open.end();
}

/// What differs between two recordings so that one cannot take the other's place, or empty.
std::string difference(const Calls& before, const Calls& now) {
  for (std::size_t i = 0; i < std::min(before.size(), now.size()); ++i)
    if (const std::string differs = before[i]->difference(*now[i]); !differs.empty())
      return fmt::format("call {} is {}", i, differs);
  if (before.size() == now.size()) return "";
  return fmt::format("it makes {} calls where there were {}", now.size(), before.size());
}

/// The launch of a graph while another one is recorded: what it was at that time.
class RecordedGraph final : public RecordedCall {
 public:
  RecordedGraph(Calls calls, Device device) : calls_(std::move(calls)), device_(device) {}

  GraphCall describe() const override { return {"graph", fmt::format("{} calls", calls_.size()), {}, {}}; }
  void run() const override {
    for (const auto& call : calls_) call->run();
  }
  std::string difference(const RecordedCall& other) const override {
    const auto* graph = dynamic_cast<const RecordedGraph*>(&other);
    if (graph == nullptr || graph->device_ != device_)
      return fmt::format("{} where it was {}", to_string(other.describe()), to_string(describe()));
    const std::string differs = kiln::difference(calls_, graph->calls_);
    return differs.empty() ? "" : "a graph with a difference: " + differs;
  }

 private:
  Calls calls_;
  Device device_;
};

}  // namespace

struct Graph::State {
  State(Device of_device, Recorded recorded)
      : device(of_device),
        calls(std::move(recorded.calls)),
        holdings(std::move(recorded.holdings)),
        graph(std::move(recorded.graph)) {}
  ~State() {
#if KILN_HAS_CUDA
    if (!device.is_cuda()) return;
    const cuda::CurrentContext current(cuda::primary_context(device.index), device.index);
    if (executable != nullptr) cuda::destroy_executable(executable);
    cuda::retire_holdings(std::move(holdings), launched);
    cuda::drop_finished_holdings();
#endif
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  /// Of a new recording, instantiated.
  static std::unique_ptr<State> make(Device device, Recorded recorded);
  void require_device(Stream stream) const;
  /// Changes the graph to another recording.
  void change_to(Recorded recorded);

  Device device;
  Calls calls;
  std::shared_ptr<GraphHoldings> holdings;
  DriverGraph graph;           ///< what `executable` was instantiated from: its nodes' handles are this one's
  DriverGraph latest;          ///< of the last update by a body; the later of the two holds what `executable` does now
  void* executable = nullptr;  ///< CUgraphExec
  mutable void* launched = nullptr;       ///< an event behind the last launch since `holdings` are these
  std::vector<std::vector<void*>> nodes;  ///< in `graph`, of each call
};

Graph::Graph(std::unique_ptr<State> state) noexcept : state_(std::move(state)) {}
Graph::~Graph() = default;
Graph::Graph(Graph&& other) noexcept = default;
Graph& Graph::operator=(Graph&& other) noexcept = default;

Graph::State& Graph::state() const {
  if (state_ == nullptr)
    throw_value_error("this graph was moved from and holds nothing; use the graph that it was moved to");
  return *state_;
}

std::unique_ptr<Graph::State> Graph::State::make(Device device, Recorded recorded) {
  auto state = std::make_unique<State>(device, std::move(recorded));
#if KILN_HAS_CUDA
  if (device.is_cuda()) {
    const cuda::CurrentContext current(cuda::primary_context(device.index), device.index);
    for (const auto& call : state->calls) state->nodes.emplace_back(call->nodes().begin(), call->nodes().end());
    state->executable = cuda::instantiate_graph(state->graph.get());
  }
#endif
  return state;
}

Graph capture(Stream stream, const std::function<void()>& body) {
  return Graph(Graph::State::make(stream.device, record(stream, body)));
}

struct GraphCapture::State {
  explicit State(Stream stream) : open(stream) {}
  /// Ends the recording, whether what ends it throws or not.
  static Recorded take(std::unique_ptr<State> state) { return state->open.end(); }

  OpenRecording open;
  std::thread::id thread = std::this_thread::get_id();
};

GraphCapture::GraphCapture(Stream stream) : state_(std::make_unique<State>(stream)) {}
GraphCapture::~GraphCapture() = default;

GraphCapture::State& GraphCapture::state() const {
  if (state_ == nullptr) throw_value_error("this capture was ended already");
  if (state_->thread != std::this_thread::get_id())
    throw_value_error("a capture ends on the thread that began it, and this is another one");
  return *state_;
}

Graph GraphCapture::end() {
  const Device device = state().open.stream().device;
  return Graph(Graph::State::make(device, State::take(std::move(state_))));
}

void GraphCapture::end(Graph& graph) {
  Graph::State& changed = graph.state();
  changed.require_device(state().open.stream());
  changed.change_to(State::take(std::move(state_)));
}

void Graph::launch(Stream stream) const {
  const State& state = this->state();
  if (stream.device != state.device)
    throw_value_error(fmt::format("a graph recorded on {} was launched on a stream of {}", to_string(state.device),
                                  to_string(stream.device)));
  if (is_observed()) [[unlikely]] {
    const std::shared_ptr<Recording> recording = Recording::of_work(stream, "Graph::launch");
    if (const GraphLaunchObserver observer = graph_launch_observer.load(); observer != nullptr)
      observer(stream, recording != nullptr, [&] { launch_state(state, stream, recording.get()); });
    else
      launch_state(state, stream, recording.get());
    return;
  }
  launch_state(state, stream, nullptr);
}

void Graph::launch_state(const State& state, [[maybe_unused]] Stream stream, Recording* recording) {
  std::unique_lock<std::mutex> turn;
  if (recording != nullptr) turn = recording->lock_calls();
#if KILN_HAS_CUDA
  if (state.device.is_cuda()) {
    const cuda::CurrentContext current(cuda::primary_context(state.device.index), state.device.index);
    if (cuda::capture_id(stream.handle) == 0) {
      if (state.launched == nullptr) state.launched = cuda::create_event(false);
      cuda::launch_graph(state.executable, stream.handle);
      cuda::record_event(state.launched, stream.handle);
    } else {
      cuda::capture_child_graph(stream.handle, (state.latest.get() != nullptr ? state.latest : state.graph).get());
      if (recording == nullptr) cuda::hold_with_capture(stream.handle, state.holdings);
    }
  }
#endif
  if (recording != nullptr) {
    recording->keep(state.holdings, nullptr);
    recording->add(std::make_shared<RecordedGraph>(state.calls, state.device));
  } else if (!state.device.is_cuda()) {
    for (const auto& call : state.calls) call->run();
  }
}

std::size_t Graph::num_calls() const {
  return state().calls.size();
}

GraphCall Graph::call(std::size_t index) const {
  const Calls& calls = state().calls;
  if (index >= calls.size())
    throw_value_error(fmt::format("call {} of a graph was asked for, which holds {} calls", index, calls.size()));
  return calls[index]->describe();
}

Device Graph::device() const {
  return state().device;
}

std::int64_t Graph::memory_bytes() const {
  return state().holdings->memory->size_bytes();
}

void Graph::update(std::size_t call, std::span<const TensorView> inputs, std::span<const TensorView> outputs) {
  State& state = this->state();
  if (call >= state.calls.size())
    throw_value_error(
        fmt::format("call {} of a graph was to be updated, which holds {} calls", call, state.calls.size()));
  std::shared_ptr<const RecordedCall> changed;
  try {
    changed = state.calls[call]->with_tensors(inputs, outputs);
  } catch (const UsageError& error) {
    throw UsageError(error.kind(), fmt::format("call {} of the graph cannot be updated: {}", call, error.what()));
  }
#if KILN_HAS_CUDA
  if (state.device.is_cuda()) {
    const cuda::CurrentContext current(cuda::primary_context(state.device.index), state.device.index);
    changed->write_to(state.executable, state.nodes[call]);
  }
#endif
  state.calls[call] = std::move(changed);
}

void Graph::State::require_device(Stream stream) const {
  if (stream.device != device)
    throw_value_error(fmt::format("a graph recorded on {} was to be updated on a stream of {}", to_string(device),
                                  to_string(stream.device)));
}

void Graph::update(Stream stream, const std::function<void()>& body) {
  State& state = this->state();
  state.require_device(stream);
  state.change_to(record(stream, body));
}

void Graph::State::change_to(Recorded recorded) {
  std::string differs = difference(calls, recorded.calls);
#if KILN_HAS_CUDA
  if (differs.empty() && device.is_cuda()) {
    const cuda::CurrentContext current(cuda::primary_context(device.index), device.index);
    differs = cuda::update_executable(executable, recorded.graph.get());
  }
#endif
  if (!differs.empty())
    throw_value_error(
        fmt::format("the graph cannot be updated to this body: {}; make a new graph with kiln::capture", differs));
  calls = std::move(recorded.calls);
  std::swap(holdings, recorded.holdings);
#if KILN_HAS_CUDA
  if (device.is_cuda()) cuda::retire_holdings(std::move(recorded.holdings), std::exchange(launched, nullptr));
#endif
  latest = std::move(recorded.graph);
}

#if KILN_HAS_CUDA
namespace {

/// Takes away what a failed recording added to a graph of the caller's; later nodes first, since they depend on
/// earlier ones.
void destroy_added_nodes(void* graph, const std::vector<void*>& before) noexcept {
  try {
    const std::vector<void*> now = cuda::graph_nodes(graph);
    for (auto node = now.rbegin(); node != now.rend(); ++node)
      if (std::find(before.begin(), before.end(), *node) == before.end()) cuda::destroy_node(*node);
  } catch (const Error&) {
    return;  // the error on its way is the news
  }
}

}  // namespace
#endif

std::vector<void*> capture_into([[maybe_unused]] void* cuda_graph, [[maybe_unused]] std::span<void* const> dependencies,
                                Stream stream, [[maybe_unused]] const std::function<void()>& body) {
  if (!stream.device.is_cuda())
    throw_not_implemented("only work of a CUDA stream can be captured into a CUDA graph; on the CPU use kiln::capture");
  require_capturable(stream);
#if KILN_HAS_CUDA
  if (cuda_graph == nullptr) throw_value_error("capture_into was given no graph: expected a CUgraph");
  const cuda::CurrentContext current(cuda::primary_context(stream.device.index), stream.device.index);
  const std::vector<void*> before = cuda::graph_nodes(cuda_graph);
  const CaptureFrame frame(stream.device);
  cuda::begin_capture_to_graph(stream.handle, cuda_graph, dependencies);
  std::shared_ptr<Recording> recording;
  bool is_ended = false;
  try {
    run_body(stream, body, recording);
    std::vector<void*> last = cuda::capture_dependencies(stream.handle);
    is_ended = true;
    cuda::end_capture(stream.handle);
    cuda::hold_with_graph(cuda_graph, recording->holdings());
    return last;
  } catch (...) {
    if (!is_ended) cuda::abandon_capture(stream.handle, true);
    destroy_added_nodes(cuda_graph, before);
    throw;
  }
#else
  throw InternalError("a build without the NVIDIA target got as far as recording a CUDA stream");
#endif
}

}  // namespace kiln
