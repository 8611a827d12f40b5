#include "runtime/graph.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <thread>
#include <utility>

#include "core/errors.hpp"
#include "runtime/backend.hpp"
#include "runtime/observers.hpp"
#include "runtime/open_recording.hpp"

namespace kiln {
namespace {

using Calls = std::vector<std::shared_ptr<const RecordedCall>>;

Recorded record(Stream stream, const std::function<void()>& body) {
  OpenRecording open(stream);
  const CurrentDevice current(stream.device);  // whatever else the body calls finds it current
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
    if (!device.is_cuda()) return;
    const CurrentDevice current(device);
    if (executable != nullptr) CudaBackend::destroy_executable(executable);
    CudaBackend::retire_holdings(std::move(holdings), launched);
    CudaBackend::drop_finished_holdings();
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
  if (device.is_cuda()) {
    const CurrentDevice current(device);
    for (const auto& call : state->calls) state->nodes.emplace_back(call->nodes().begin(), call->nodes().end());
    state->executable = CudaBackend::instantiate_graph(state->graph.get());
  }
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

void Graph::launch_state(const State& state, Stream stream, Recording* recording) {
  std::unique_lock<std::mutex> turn;
  if (recording != nullptr) turn = recording->lock_calls();
  if (state.device.is_cuda() && !CudaBackend::launch_graph(state.executable, state.launched, stream)) {
    CudaBackend::capture_child_graph(stream, (state.latest.get() != nullptr ? state.latest : state.graph).get());
    if (recording == nullptr) CudaBackend::hold_with_capture(stream, state.holdings);
  }
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
  if (state.device.is_cuda()) {
    const CurrentDevice current(state.device);
    changed->write_to(state.executable, state.nodes[call]);
  }
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
  if (differs.empty() && device.is_cuda()) {
    const CurrentDevice current(device);
    differs = CudaBackend::update_executable(executable, recorded.graph.get());
  }
  if (!differs.empty())
    throw_value_error(
        fmt::format("the graph cannot be updated to this body: {}; make a new graph with kiln::capture", differs));
  calls = std::move(recorded.calls);
  std::swap(holdings, recorded.holdings);
  if (device.is_cuda()) CudaBackend::retire_holdings(std::move(recorded.holdings), std::exchange(launched, nullptr));
  latest = std::move(recorded.graph);
}

std::vector<void*> capture_into(void* cuda_graph, std::span<void* const> dependencies, Stream stream,
                                const std::function<void()>& body) {
  if (!stream.device.is_cuda())
    throw_not_implemented("only work of a CUDA stream can be captured into a CUDA graph; on the CPU use kiln::capture");
  require_capturable(stream);
  if (cuda_graph == nullptr) throw_value_error("capture_into was given no graph: expected a CUgraph");
  return CudaBackend::capture_into(cuda_graph, dependencies, stream, body);
}

}  // namespace kiln
