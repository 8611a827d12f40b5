#include "python/bindings/graph_object.hpp"

#include <fmt/format.h>

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/errors.hpp"
#include "python/bindings/array.hpp"
#include "python/bindings/array_reading.hpp"
#include "python/bindings/gil.hpp"
#include "python/bindings/stream.hpp"
#include "python/bindings/stream_object.hpp"
#include "python/bindings/stream_scope.hpp"
#include "python/bindings/tensor_layout.hpp"
#include "runtime/event.hpp"
#include "runtime/graph.hpp"
#include "runtime/recording.hpp"

namespace kiln::python {
namespace {

/// A tensor of a call that was updated, and what holds it: its array, and what that array's library made for the look.
struct HeldTensor {
  TensorView view;
  std::shared_ptr<void> array, made;
};
struct HeldCall {
  std::vector<HeldTensor> inputs, outputs;
};

std::vector<TensorView> views_of(const std::vector<HeldTensor>& tensors) {
  std::vector<TensorView> views;
  for (const HeldTensor& tensor : tensors) views.push_back(tensor.view);
  return views;
}

class GraphObject {
  // Before its uses, for its type is deduced.
  template <typename Function>
  auto with_graph(const Function& function) {
    ready();
    const GilReleased released;
    const std::lock_guard lock(mutex_);
    return function(*graph_);
  }

 public:
  GraphObject(Stream stream, py::object stream_object) : stream_(stream), stream_object_(std::move(stream_object)) {}
  ~GraphObject() {
    // The work may still use what the graph alone holds by now.
    if (launched_ && !(updated_.empty() && retired_.empty())) try {
        std::optional<GilReleased> released;
        if (may_release_gil()) released.emplace();
        launched_->synchronize();
      } catch (const Error&) {
        return;  // the device's failure meets whoever waits for its work
      }
  }
  GraphObject(const GraphObject&) = delete;
  GraphObject& operator=(const GraphObject&) = delete;

  Stream stream() const noexcept { return stream_; }

  void set(Graph graph) {
    const std::lock_guard lock(mutex_);
    graph_ = std::move(graph);
    is_ready_.store(true, std::memory_order_release);
  }
  void fail() { problem_ = "its recording ended with an exception, and it holds nothing"; }

  std::size_t num_calls() {
    return with_graph([](const Graph& graph) { return graph.num_calls(); });
  }
  std::int64_t memory_bytes() {
    return with_graph([](const Graph& graph) { return graph.memory_bytes(); });
  }
  /// Negative numbers count from the end, as in a list.
  GraphCall call(std::int64_t index) {
    return with_graph([&](const Graph& graph) { return graph.call(place_of(graph, index)); });
  }
  std::vector<GraphCall> calls() {
    return with_graph([](const Graph& graph) {
      std::vector<GraphCall> all;
      for (std::size_t i = 0; i < graph.num_calls(); ++i) all.push_back(graph.call(i));
      return all;
    });
  }

  void launch(py::handle stream) {
    ready();
    const Stream where = any_stream(stream, stream_.device);
    const GilReleased released;
    const std::lock_guard lock(mutex_);
    graph_->launch(where);
    if (const std::shared_ptr<Recording> recording = Recording::of(where)) {
      for (const auto& [place, held] : updated_)
        for (const auto* tensors : {&held.inputs, &held.outputs})
          for (const HeldTensor& tensor : *tensors) {
            recording->keep(tensor.array, tensor.view.data);
            recording->keep(tensor.made, tensor.view.data);
          }
      return;
    }
    if (!stream_.device.is_cuda() || is_capturing(where)) return;
    if (!updated_.empty()) mark_launch(where);
    // Arrays of the graph's own say that work on them is on the stream that was recorded: who reads them waits for
    // that.
    if (where.handle != stream_.handle && !is_capturing(stream_)) wait_stream(stream_, where);
  }

  /// None leaves inputs or outputs as they are, as does a None among them.
  void update_call(std::int64_t index, py::handle inputs, py::handle outputs) {
    std::size_t place = 0;
    HeldCall held = with_graph([&](const Graph& graph) {
      place = place_of(graph, index);
      const auto before = updated_.find(place);
      return before != updated_.end() ? before->second : held_by_graph(graph.call(place));
    });
    read(inputs, "inputs", false, held.inputs);
    read(outputs, "outputs", true, held.outputs);
    const std::vector<TensorView> input_views = views_of(held.inputs), output_views = views_of(held.outputs);
    const GilReleased released;
    const std::lock_guard lock(mutex_);
    graph_->update(place, input_views, output_views);
    std::swap(updated_[place], held);
    retire(std::move(held));
  }

  /// Without the GIL.
  void change_to(GraphCapture& capture) {
    const std::lock_guard lock(mutex_);
    capture.end(*graph_);
    for (auto& [place, held] : updated_) retire(std::move(held));
    updated_.clear();
  }

  void ready() const {
    if (!is_ready_.load(std::memory_order_acquire)) throw_value_error("this graph cannot be used: " + problem_);
  }

 private:
  static std::size_t place_of(const Graph& graph, std::int64_t index) {
    const auto count = static_cast<std::int64_t>(graph.num_calls());
    if (index < -count || index >= count)
      throw_value_error(fmt::format("call {} of a graph was asked for, which holds {} calls", index, count));
    return static_cast<std::size_t>(index < 0 ? index + count : index);
  }

  static HeldCall held_by_graph(const GraphCall& call) {
    HeldCall held;
    for (const TensorView& view : call.inputs) held.inputs.push_back({view, nullptr, nullptr});
    for (const TensorView& view : call.outputs) held.outputs.push_back({view, nullptr, nullptr});
    return held;
  }

  /// Puts the arrays that are given in the place of `tensors`.
  static void read(py::handle given, const char* what, bool is_written, std::vector<HeldTensor>& tensors) {
    if (given.is_none()) return;
    const bool is_list = PyList_Check(given.ptr()) || PyTuple_Check(given.ptr());
    const py::tuple arrays = is_list ? py::tuple(py::reinterpret_borrow<py::object>(given)) : py::make_tuple(given);
    if (arrays.size() != tensors.size())
      throw_value_error(
          fmt::format("update: {} {} were given, and the call has {}", arrays.size(), what, tensors.size()));
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const py::handle array = arrays[i];
      if (array.is_none()) continue;
      const std::string name = fmt::format("{}[{}]", what, i);
      const ArrayArgument argument = array_argument(array, name);
      if (is_written && argument.read_only)
        throw_value_error(name + " is read-only, and the call writes it; pass a writeable array");
      tensors[i] = {argument.tensor.view(), share(py::reinterpret_borrow<py::object>(array)), argument.tensor.owner()};
    }
  }

  /// A mark that nobody retired arrays with may be moved.
  void mark_launch(Stream where) {
    if (!launched_ || launched_.use_count() > 1) launched_ = std::make_shared<Event>(stream_.device);
    launched_->record(where);
  }

  /// Lets go of arrays as soon as no launch uses them.
  void retire(HeldCall held) {
    std::erase_if(retired_, [](const auto& each) { return each.first->is_done(); });
    if (launched_ && !launched_->is_done()) retired_.emplace_back(launched_, std::move(held));
  }

  const Stream stream_;
  const py::object stream_object_;  ///< keeps the stream
  std::string problem_ = "it is still being recorded; its work can be launched after the with block";
  std::atomic<bool> is_ready_{false};
  std::mutex mutex_;  ///< of what follows: CUDA takes one launch or update of a graph at a time
  std::optional<Graph> graph_;
  std::map<std::size_t, HeldCall> updated_;
  std::shared_ptr<Event> launched_;  ///< behind the last launch with updated calls, on a GPU; null before the first
  std::vector<std::pair<std::shared_ptr<Event>, HeldCall>> retired_;  ///< what launches before those marks may use
};

/// What `with` enters: a recording that becomes a new graph, or what a graph is changed to.
class CaptureObject {
 public:
  CaptureObject(std::shared_ptr<GraphObject> graph, Stream stream, bool is_update)
      : graph_(std::move(graph)), stream_(stream), is_update_(is_update) {}
  ~CaptureObject() {
    // Nobody left the block, as happens to a generator that is thrown away. What is bound to the thread that entered it
    // can be ended there alone.
    if (!open_ || open_->thread == std::this_thread::get_id()) return;
    static_cast<void>(open_.release());
  }
  CaptureObject(const CaptureObject&) = delete;
  CaptureObject& operator=(const CaptureObject&) = delete;

  std::shared_ptr<GraphObject> enter() {
    if (was_entered_) throw_value_error("a capture is entered once: make another with kiln.capture()");
    was_entered_ = true;
    if (is_update_) graph_->ready();
    std::unique_ptr<Open> open;
    {
      const GilReleased released;
      open = std::make_unique<Open>(stream_);
    }
    open_ = std::move(open);
    return graph_;
  }

  void exit(py::handle error, py::handle, py::handle) {
    if (!open_) throw_value_error("this capture was not entered, or was left already");
    if (open_->thread != std::this_thread::get_id())
      throw_value_error("a capture is left on the thread that entered it, and this is another one");
    const std::unique_ptr<Open> open = std::move(open_);
    if (!is_update_) graph_->fail();
    const GilReleased released;
    if (!error.is_none()) {
      open->end();
      return;
    }
    if (is_update_)
      graph_->change_to(*open->capture);
    else
      graph_->set(open->capture->end());
  }

 private:
  struct Open {
    explicit Open(Stream stream) : scope(stream, false) { capture.emplace(stream); }
    void end() { capture.reset(); }
    const std::thread::id thread = std::this_thread::get_id();
    StreamScope scope;
    std::optional<GraphCapture> capture;
  };

  std::shared_ptr<GraphObject> graph_;
  Stream stream_;
  bool is_update_;
  bool was_entered_ = false;
  std::unique_ptr<Open> open_;
};

/// The stream to record: the one given, else one of Kiln's own.
std::pair<Stream, py::object> stream_to_record(const py::object& stream, const py::object& device) {
  if (!stream.is_none()) {
    const Stream given = any_stream(stream, device.is_none() ? std::nullopt : std::optional(device_or_default(device)));
    if (!device.is_none() && given.device != device_or_default(device))
      throw_value_error(fmt::format("capture: the stream is of {}, and device is {}", to_string(given.device),
                                    to_string(device_or_default(device))));
    return {given, stream};
  }
  const Device place = device_or_default(device);
  if (!place.is_cuda()) return {Stream::default_of(place), py::none()};
  py::object own = make_stream_object(place, 0);
  const Stream handle = *kiln_stream(own);
  return {handle, std::move(own)};
}

std::unique_ptr<CaptureObject> capture_graph(const py::object& stream, const py::object& device) {
  auto [where, kept] = stream_to_record(stream, device);
  return std::make_unique<CaptureObject>(std::make_shared<GraphObject>(where, std::move(kept)), where, false);
}

py::object update_graph(const std::shared_ptr<GraphObject>& self, const std::optional<std::int64_t>& call,
                        py::handle inputs, py::handle outputs) {
  self->ready();
  if (call) {
    self->update_call(*call, inputs, outputs);
    return py::none();
  }
  if (!inputs.is_none() || !outputs.is_none())
    throw_type_error("update: inputs and outputs are a call's; give the call's number too: graph.update(0, [x, y])");
  return py::cast(std::make_unique<CaptureObject>(self, self->stream(), true));
}

void bind_graph_call(py::module_& module) {
  py::class_<GraphCall> type(module, "GraphCall", "One call that a graph holds, as it was recorded or last updated.",
                             py::is_final());
  type.attr("__module__") = "kiln";
  type.def_readonly("op", &GraphCall::op, "As dispatched; \"graph\" for the launch of another graph.")
      .def_readonly("config", &GraphCall::config, "\"variant tiled, BLOCK=1024\".")
      .def_property_readonly(
          "inputs", [](const GraphCall& self) { return layouts_of(self.inputs); },
          "A kiln.TensorLayout each; None for one that was left out.")
      .def_property_readonly(
          "outputs", [](const GraphCall& self) { return layouts_of(self.outputs); },
          "Memory that is written; inputs that the op changes are among the inputs.")
      .def("__str__", [](const GraphCall& self) { return to_string(self); })
      .def("__repr__", [](const GraphCall& self) { return "<kiln.GraphCall " + to_string(self) + ">"; });
}

}  // namespace

void bind_graph(py::module_& module) {
  bind_graph_call(module);
  py::class_<GraphObject, std::shared_ptr<GraphObject>> type(
      module, "Graph",
      "Work that kiln.capture recorded, replayed with one call. It holds the arrays its calls were given; the arrays "
      "they made are its own, and each launch writes them again.",
      py::is_final());
  type.attr("__module__") = "kiln";
  constexpr const char* kLaunchDoc =
      "Enqueues the work, on `stream` as a call takes it; on the CPU, does it. In the body of another capture it "
      "becomes "
      "part of that graph.";
  type.def("launch", &GraphObject::launch, py::arg("stream") = py::none(), kLaunchDoc)
      .def("replay", &GraphObject::launch, py::arg("stream") = py::none(), "launch, by torch's name.")
      .def_property_readonly("num_calls", &GraphObject::num_calls, "How many calls of Kiln were recorded.")
      .def_property_readonly(
          "calls",
          [](GraphObject& self) {
            py::list list;
            for (GraphCall& call : self.calls()) list.append(py::cast(std::move(call)));
            return list;
          },
          "A kiln.GraphCall each, in the order they were made.")
      .def("call", &GraphObject::call, py::arg("index"), "The kiln.GraphCall of that number.")
      .def_property_readonly(
          "device", [](const GraphObject& self) { return to_string(self.stream().device); }, "\"cpu\", \"cuda:0\".")
      .def_property_readonly("memory_bytes", &GraphObject::memory_bytes, "Bytes of device memory of the graph's own.")
      .def("update", &update_graph, py::arg("call") = py::none(), py::arg("inputs") = py::none(),
           py::arg("outputs") = py::none(),
           "Changes the graph from the next launch on.\n\ngraph.update(0, [x, y], [out]) gives one op other arrays of "
           "the same shapes, strides and dtypes; None leaves some as they are. with graph.update(): records a body "
           "anew, that runs the same kernels in the same order. ValueError otherwise, and the graph is as before.");
  py::class_<CaptureObject> context(module, "GraphCapture", "What kiln.capture and Graph.update give to `with`.",
                                    py::is_final());
  context.attr("__module__") = "kiln";
  context.def("__enter__", &CaptureObject::enter)
      .def("__exit__", &CaptureObject::exit, py::arg("type"), py::arg("value"), py::arg("traceback"));
  module.def(
      "capture", &capture_graph, py::arg("stream") = py::none(), py::kw_only(), py::arg("device") = py::none(),
      "with kiln.capture() as graph: records what the block enqueues, and runs none of it.\n\nCalls in the block "
      "that are given no stream run on the one that is recorded: `stream`, else one of Kiln's own on `device`, "
      "else on the first GPU, else the CPU. On a GPU CUDA's default stream cannot be recorded. Everything must "
      "be compiled before (kiln.warm_up). An exception that leaves the block ends the recording.");
}

}  // namespace kiln::python
