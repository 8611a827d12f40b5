#include "python/bindings/stream_object.hpp"

#include <fmt/format.h>

#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "core/errors.hpp"
#include "python/bindings/array.hpp"
#include "python/bindings/construction.hpp"
#include "python/bindings/gil.hpp"
#include "python/bindings/stream.hpp"
#include "runtime/device_info.hpp"
#include "runtime/event.hpp"
#include "runtime/fork_join.hpp"
#include "runtime/recording.hpp"

namespace kiln::python {
namespace {

PyObject* g_stream_type = nullptr;  // lives as long as the process

/// Streams that nobody uses at the moment, by device and the priority that was asked for.
class StreamPool {
 public:
  std::unique_ptr<OwnedStream> take(Device device, int priority) {
    {
      const std::lock_guard lock(mutex_);
      std::vector<std::unique_ptr<OwnedStream>>& idle = idle_[{device, priority}];
      if (!idle.empty()) {
        std::unique_ptr<OwnedStream> stream = std::move(idle.back());
        idle.pop_back();
        return stream;
      }
    }
    return std::make_unique<OwnedStream>(device, priority);
  }
  void give_back(std::unique_ptr<OwnedStream> stream, int priority) noexcept {
    const Device device = stream->get().device;
    try {
      const std::lock_guard lock(mutex_);
      idle_[{device, priority}].push_back(std::move(stream));
    } catch (const std::exception&) {
      static_cast<void>(stream.release());  // no host memory: one stream is lost, and what is freed on it is not
    }
  }

 private:
  std::mutex mutex_;
  std::map<std::pair<Device, int>, std::vector<std::unique_ptr<OwnedStream>>> idle_;
};

StreamPool& stream_pool() {
  static auto* const pool = new StreamPool;  // never destroyed: arrays may be freed while the process exits
  return *pool;
}

StreamObject lend_stream(Device device, int priority) {
  device_info(device);  // says which devices there are when this one is not
  std::unique_ptr<OwnedStream> owned = stream_pool().take(device, priority);
  const Stream stream = owned->get();
  std::shared_ptr<void> loan(owned.release(), [priority](void* lent) {
    stream_pool().give_back(std::unique_ptr<OwnedStream>(static_cast<OwnedStream*>(lent)), priority);
  });
  return {stream, std::move(loan)};
}

/// The device a stream object of another library names.
std::optional<Device> device_of(py::handle object) {
  if (py::hasattr(object, "device")) return parse_device(py::str(object.attr("device")).cast<std::string>());  // torch
  if (!py::hasattr(object, "device_id")) return std::nullopt;
  const int ordinal = object.attr("device_id").cast<int>();  // CuPy; -1: its default stream, of any device
  return ordinal < 0 ? std::nullopt : std::optional(Device::cuda(ordinal));
}

struct Scope {
  const StreamScope* owner;
  Stream stream;
  bool is_torchs;
};
thread_local std::vector<Scope> scopes_of_this_thread;

std::uintptr_t address_of(Stream stream) {
  return reinterpret_cast<std::uintptr_t>(stream.handle);
}

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
      enter(cuda.attr("stream")(
          cuda.attr("ExternalStream")(address_of(stream), py::arg("device") = to_string(stream.device))));
      is_torchs_ = true;
    }
    if (modules.contains("cupy"))
      enter(py::module_::import("cupy.cuda").attr("ExternalStream")(address_of(stream), stream.device.index));
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

py::list run_branches(py::handle stream, const py::sequence& branches) {
  const Stream where = any_stream(stream, device_or_default(py::none()));
  std::vector<py::object> functions, results;
  for (const py::handle branch : branches) {
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
      .def("synchronize", &Event::synchronize, py::call_guard<GilReleased>(), "Waits for the mark.")
      .def(
          "elapsed_us", [](const Event& self, const Event& stop) { return elapsed_us(self, stop); }, py::arg("stop"),
          "Microseconds from this mark to another, of timed events that were both reached.");
}

}  // namespace

py::object make_stream_object(Device device, int priority) {
  return py::cast(lend_stream(device, priority));
}

std::optional<Stream> kiln_stream(py::handle object) {
  if (reinterpret_cast<PyObject*>(Py_TYPE(object.ptr())) != g_stream_type) return std::nullopt;
  return py::cast<const StreamObject*>(object)->stream;
}

Stream any_stream(py::handle object, std::optional<Device> device) {
  if (const std::optional<Stream> stream = kiln_stream(object)) return *stream;
  if (!object.is_none())
    if (const std::optional<Device> named = device_of(object)) device = named;
  if (!device)
    throw_type_error(fmt::format("stream: {} says no device; give a stream object, of kiln.Stream, torch or CuPy",
                                 py::repr(object).cast<std::string>()));
  return stream_argument(object, *device, library_of_streams());
}

Device device_or_default(py::handle device) {
  if (!device.is_none()) return parse_device(py::str(device).cast<std::string>());
  return device_count(DeviceType::cuda) > 0 ? Device::cuda(0) : Device::cpu();
}

StreamScope::StreamScope(Stream stream, bool is_torchs) {
  scopes_of_this_thread.push_back({this, stream, is_torchs});
}

StreamScope::~StreamScope() {
  std::erase_if(scopes_of_this_thread, [this](const Scope& scope) { return scope.owner == this; });
}

std::optional<Stream> StreamScope::current(Device device, bool for_torch) noexcept {
  for (auto scope = scopes_of_this_thread.rbegin(); scope != scopes_of_this_thread.rend(); ++scope)
    if (scope->stream.device == device)
      return for_torch && scope->is_torchs ? std::nullopt : std::optional(scope->stream);
  return std::nullopt;
}

void bind_stream(py::module_& module) {
  py::class_<StreamObject> type(module, "Stream",
                                "Stream(device=None, priority=0)\n\nA queue of work on a device; without a device of "
                                "the first GPU, or of the CPU where there is none. Takes the place of a stream of "
                                "torch or CuPy wherever Kiln takes one.",
                                py::is_final());
  g_stream_type = py::handle(type).inc_ref().ptr();
  type.attr("__module__") = "kiln";
  construct_with(type, py::cpp_function([](const py::object& device,
                                           int priority) { return lend_stream(device_or_default(device), priority); },
                                        py::name("Stream"), py::arg("device") = py::none(), py::arg("priority") = 0));
  type.def_property_readonly(
          "device", [](const StreamObject& self) { return to_string(self.stream.device); }, "\"cpu\", \"cuda:0\".")
      .def_property_readonly(
          "priority", [](const StreamObject& self) { return stream_priority(self.stream); },
          "Lower is more urgent; 0 on the CPU.")
      .def_property_readonly(
          "cuda_stream", [](const StreamObject& self) { return address_of(self.stream); },
          "The CUstream as an integer, as torch has it: torch.cuda.ExternalStream takes it. 0 on the CPU.")
      .def("__cuda_stream__", [](const StreamObject& self) { return std::pair(0, address_of(self.stream)); })
      .def(
          "wait_stream",
          [](const StreamObject& self, py::handle other) {
            const Stream before = any_stream(other, std::nullopt);
            const GilReleased released;
            wait_stream(self.stream, before);
          },
          py::arg("other"), "Has what this stream is given from now on start after all that is on the other one now.")
      .def(
          "synchronize",
          [](const StreamObject& self) {
            const GilReleased released;
            synchronize(self.stream);
          },
          "Waits for the stream's work. DeviceError where a kernel failed.")
      .def("__repr__", [](const StreamObject& self) {
        return self.stream.device.is_cuda()
                   ? fmt::format("<kiln.Stream {} {:#x}>", to_string(self.stream.device), address_of(self.stream))
                   : std::string("<kiln.Stream cpu>");
      });
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
