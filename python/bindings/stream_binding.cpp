#include "python/bindings/stream_binding.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "core/errors.hpp"
#include "python/bindings/construction.hpp"
#include "python/bindings/gil.hpp"
#include "python/bindings/held_arrays.hpp"
#include "python/bindings/stream.hpp"
#include "python/bindings/stream_object.hpp"
#include "python/bindings/stream_scope.hpp"
#include "runtime/device_info.hpp"
#include "runtime/event.hpp"
#include "runtime/fork_join.hpp"
#include "runtime/recording.hpp"

namespace kiln::python {
namespace {

/// Has the array libraries that are loaded use a stream as their current one: what they allocate for a branch is then
/// the branch's, and not given to another branch meanwhile.
class LibraryStreams {
 public:
  explicit LibraryStreams(Stream stream) : LibraryStreams() {  // the destructor is for a part of them too
    // In a graph of Kiln's their allocators' memory would be reused by others between replays.
    if (!stream.device.is_cuda() || Recording::of(stream) != nullptr) return;
    const py::dict modules = py::module_::import("sys").attr("modules");
    if (modules.contains("torch")) {
      const py::object cuda = py::module_::import("torch.cuda");
      enter(cuda.attr("stream")(cuda.attr("ExternalStream")(reinterpret_cast<std::uintptr_t>(stream.handle),
                                                            py::arg("device") = to_string(stream.device))));
      is_torchs_ = true;
    }
    if (modules.contains("cupy"))
      enter(py::module_::import("cupy.cuda")
                .attr("ExternalStream")(reinterpret_cast<std::uintptr_t>(stream.handle), stream.device.index));
  }
  ~LibraryStreams() {
    for (auto entered = entered_.rbegin(); entered != entered_.rend(); ++entered) {
      try {
        entered->attr("__exit__")(py::none(), py::none(), py::none());
      } catch (py::error_already_set& error) {
        error.discard_as_unraisable("kiln.fork_join");
      }
    }
  }
  LibraryStreams(const LibraryStreams&) = delete;
  LibraryStreams& operator=(const LibraryStreams&) = delete;

  bool is_torchs() const noexcept { return is_torchs_; }

 private:
  LibraryStreams() = default;
  void enter(py::object context) {
    context.attr("__enter__")();
    entered_.push_back(std::move(context));
  }

  std::vector<py::object> entered_;
  bool is_torchs_ = false;
};

py::list run_branches(py::handle stream, const py::object& branches) {
  if (!PySequence_Check(branches.ptr()))
    throw_type_error(fmt::format("fork_join: branches is a {}; expected a list of functions of a branch's stream",
                                 Py_TYPE(branches.ptr())->tp_name));
  const Stream where = any_stream(stream, device_or_default(py::none()));
  std::vector<py::object> functions, results;
  for (const py::handle branch : py::reinterpret_borrow<py::sequence>(branches)) {
    if (PyCallable_Check(branch.ptr()) == 0)
      throw_type_error(fmt::format("fork_join: branch {} is a {}; expected a function of the branch's stream",
                                   functions.size(), Py_TYPE(branch.ptr())->tp_name));
    functions.push_back(py::reinterpret_borrow<py::object>(branch));
  }
  results.resize(functions.size());
  std::vector<std::function<void(Stream)>> calls;
  for (std::size_t i = 0; i < functions.size(); ++i)
    calls.emplace_back([&functions, &results, i](Stream branch) {
      const GilAcquired gil;
      const LibraryStreams libraries(branch);
      const StreamScope scope(branch, libraries.is_torchs());
      results[i] = functions[i](py::cast(StreamObject{branch, nullptr}));
    });
  {
    const GilReleased released;
    fork_join(where, calls);
  }
  py::list list;
  for (const py::object& result : results) list.append(result);
  return list;
}

void bind_event(py::module_& module) {
  py::class_<Event> type(module, "Event",
                         "Event(device=None, timed=False)\n\nA mark in the work of a stream: streams wait for it, and "
                         "the host asks whether it was reached.",
                         py::is_final());
  type.attr("__module__") = "kiln";
  construct_with(type, py::cpp_function(
                           [](const py::object& device, bool timed) {
                             const Device place = device_or_default(device);
                             device_info(place);
                             return Event(place, timed);
                           },
                           py::name("Event"), py::arg("device") = py::none(), py::arg("timed") = false));
  type.def_property_readonly("device", [](const Event& self) { return to_string(self.device()); })
      .def(
          "record",
          [](Event& self, py::handle stream) {
            const Stream where = any_stream(stream, self.device());
            const GilReleased released;
            self.record(where);
          },
          py::arg("stream") = py::none(), "Moves the mark behind all that is on the stream now.")
      .def(
          "wait",
          [](const Event& self, py::handle stream) {
            const Stream where = any_stream(stream, self.device());
            const GilReleased released;
            self.wait(where);
          },
          py::arg("stream") = py::none(), "Has what the stream is given from now on start after the mark.")
      .def("is_done", &Event::is_done, py::call_guard<GilReleased>(), "Whether the mark was reached.")
      .def(
          "synchronize",
          [](const Event& self) {
            const GilReleased released;
            self.synchronize();
            release_done_transfers();
          },
          "Waits for the mark.")
      .def(
          "elapsed_us", [](const Event& self, const Event& stop) { return elapsed_us(self, stop); }, py::arg("stop"),
          "Microseconds from this mark to another, of timed events that were both reached.");
}

}  // namespace

void bind_stream(py::module_& module) {
  define_stream(module).def(
      "wait_stream",
      [](const StreamObject& self, py::handle other) {
        const Stream before = any_stream(other, std::nullopt);
        const GilReleased released;
        wait_stream(self.stream, before);
      },
      py::arg("other"), "Has what this stream is given from now on start after all that is on the other one now.");
  bind_event(module);
  module.def(
      "wait_stream",
      [](py::handle stream, py::handle other) {
        const Stream after = any_stream(stream, std::nullopt), before = any_stream(other, std::nullopt);
        const GilReleased released;
        wait_stream(after, before);
      },
      py::arg("stream"), py::arg("other"),
      "Has what `stream` is given from now on start after all that is on `other` now; stream objects of any library.");
  module.def("fork_join", &run_branches, py::arg("stream"), py::arg("branches"),
             "Calls each function with a stream of its own, which starts after the work on `stream` so far; `stream` "
             "goes on after all of them. Calls of Kiln in a branch that are given no stream run on the branch's, and "
             "torch's and CuPy's current stream is the branch's too. Returns a list of what the functions returned. "
             "None: the current stream of the first GPU, or the CPU.");
  module.def(
      "stream_priority_range",
      [](const py::object& device) {
        const StreamPriorityRange range = stream_priority_range(device_or_default(device));
        return std::pair(range.least, range.greatest);
      },
      py::arg("device") = py::none(), "(the least urgent, the most urgent) of a device's stream priorities.");
}

}  // namespace kiln::python
