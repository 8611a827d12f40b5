#include "python/bindings/offload_pipeline_object.hpp"

#include <fmt/format.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "python/bindings/attributes.hpp"
#include "python/bindings/closeable.hpp"
#include "python/bindings/construction.hpp"
#include "python/bindings/gpu_presence.hpp"
#include "python/bindings/one_user.hpp"
#include "python/bindings/stream_object.hpp"
#include "python/bindings/stream_scope.hpp"
#include "python/bindings/tensor_object.hpp"
#include "python/bindings/transfer_arrays.hpp"
#include "runtime/transfer/offload_pipeline.hpp"

namespace kiln::python {
namespace {

using Direction = OffloadTensor::Direction;
using Pipeline = OneUser<OffloadPipeline>;

constexpr const char* kPipelineName = "OffloadPipeline";

Direction direction_of(py::handle given, const std::string& where) {
  const std::string name = PyUnicode_Check(given.ptr()) ? given.cast<std::string>() : std::string();
  if (name == "load") return Direction::load;
  if (name == "store") return Direction::store;
  if (name == "load_and_store") return Direction::load_and_store;
  throw_value_error(fmt::format("{}: its direction is {}; expected 'load', 'store' or 'load_and_store'", where,
                                py::repr(given).cast<std::string>()));
}

const char* name_of(OffloadStage stage) {
  switch (stage) {
    case OffloadStage::load:
      return "load";
    case OffloadStage::compute:
      return "compute";
    case OffloadStage::store:
      return "store";
  }
  return "?";
}

/// An array, which is loaded, or a pair of an array and its direction.
OffloadTensor tensor_of(py::handle given, const std::string& where, TransferArrays& arrays) {
  py::object array = py::reinterpret_borrow<py::object>(given);
  Direction direction = Direction::load;
  if (PyTuple_Check(given.ptr())) {
    const auto pair = py::reinterpret_borrow<py::tuple>(given);
    if (pair.size() != 2)
      throw_value_error(
          fmt::format("{} is a tuple of {}; expected an array, or a pair (array, 'store')", where, pair.size()));
    array = pair[0];
    direction = direction_of(pair[1], where);
  }
  using Access = TransferArrays::Access;
  return {arrays.add(array, where, direction == Direction::load ? Access::read : Access::written).view(), direction};
}

std::vector<py::object> items_of(py::handle given, const std::string& what) {
  if (!PyList_Check(given.ptr()) && !PyTuple_Check(given.ptr()))
    throw_type_error(
        fmt::format("{} is a {}; expected a list: chunks are lists of arrays and of pairs (array, 'store')", what,
                    Py_TYPE(given.ptr())->tp_name));
  std::vector<py::object> items;
  for (const py::handle item : py::reinterpret_borrow<py::sequence>(given))
    items.push_back(py::reinterpret_borrow<py::object>(item));
  return items;
}

std::vector<OffloadChunk> chunks_of(py::handle given, TransferArrays& arrays) {
  std::vector<OffloadChunk> chunks;
  for (const py::object& chunk : items_of(given, "chunks")) {
    const std::string where = fmt::format("chunk {}", chunks.size());
    OffloadChunk& described = chunks.emplace_back();
    for (const py::object& tensor : items_of(chunk, where))
      described.push_back(tensor_of(tensor, fmt::format("tensor {} of {}", described.size(), where), arrays));
  }
  return chunks;
}

/// A tensor of the pipeline's that Python may keep: its memory is freed on a stream of the pipeline's, which therefore
/// goes after it.
struct PipelineMemory {
  std::shared_ptr<Pipeline> pipeline;
  std::shared_ptr<void> buffer;
};

class OffloadPipelineObject {
 public:
  OffloadPipelineObject(Device device, int depth, bool is_timed)
      : device_(device),
        depth_(depth),
        is_timed_(is_timed),
        pipeline_(kPipelineName, std::make_shared<Pipeline>(device, depth, offload_schedule, is_timed)) {}

  Device device() const noexcept { return device_; }
  int depth() const noexcept { return depth_; }
  bool is_timed() const noexcept { return is_timed_; }
  void close() noexcept { pipeline_.close(); }
  bool is_closed() const noexcept { return pipeline_.is_closed(); }

  void run(py::handle chunks, const py::object& compute, py::handle stream) {
    const std::shared_ptr<Pipeline> pipeline = pipeline_.get();
    if (PyCallable_Check(compute.ptr()) == 0)
      throw_type_error(
          fmt::format("compute is a {}; expected a function of a chunk's number, its tensors on the device "
                      "and the stream",
                      Py_TYPE(compute.ptr())->tp_name));
    TransferArrays arrays;
    const std::vector<OffloadChunk> described = chunks_of(chunks, arrays);
    const Stream where = arrays.stream(stream, device_);
    const auto call = [&](std::int64_t chunk, std::span<const Tensor> tensors, Stream on) {
      const GilAcquired gil;
      py::list on_device;
      for (const Tensor& tensor : tensors)
        on_device.append(
            make_tensor_object(Tensor(tensor.view(), own_without_gil(PipelineMemory{pipeline, tensor.owner()})), on));
      const StreamScope scope(on, false);
      compute(chunk, on_device, py::cast(StreamObject{on, nullptr}));
    };
    {
      const GilReleased released;
      pipeline->use(kPipelineName, [&](OffloadPipeline& one) {
        arrays.order(where);
        one.run(described, call, where);
        arrays.hold(where);
      });
    }
    arrays.note_changes();
  }

  py::list spans() {
    const std::shared_ptr<Pipeline> pipeline = pipeline_.get();
    if (!is_timed_) throw_value_error("this kiln.OffloadPipeline notes no times; make it with timed=True");
    std::vector<OffloadSpan> spans;
    {
      const GilReleased released;
      pipeline->use(kPipelineName, [&](OffloadPipeline& one) { spans = one.spans(); });
    }
    py::list list;
    for (const OffloadSpan& span : spans)
      list.append(py::make_tuple(name_of(span.mark.stage), span.mark.chunk, span.start_us, span.end_us));
    return list;
  }

 private:
  Device device_;
  int depth_;
  bool is_timed_;
  Closeable<Pipeline> pipeline_;
};

std::unique_ptr<OffloadPipelineObject> make_pipeline(const py::object& device, py::handle depth, py::handle timed) {
  const Device place = device_or_default(device);
  require_gpu(place, kCpuServesToo);
  const int chunks = small_argument(depth, "depth");
  if (!PyBool_Check(timed.ptr()))
    throw_type_error(fmt::format("timed={}; expected True or False", py::repr(timed).cast<std::string>()));
  const bool is_timed = timed.cast<bool>();
  const GilReleased released;
  return std::make_unique<OffloadPipelineObject>(place, chunks, is_timed);
}

}  // namespace

void bind_offload_pipeline(py::module_& module) {
  py::class_<OffloadPipelineObject> type(
      module, kPipelineName,
      "OffloadPipeline(device=None, depth=3, *, timed=False)\n\nRuns chunks of work whose data lies in CPU memory "
      "through a GPU: while one is computed, the next are copied to the device and results of earlier ones back. "
      "`depth` chunks have memory on the device at a time. On the CPU the same calls run one after the other. `timed` "
      "ones note when each stage ran, for spans(). ValueError for a depth below 1; DeviceError where the GPU is "
      "absent. "
      "One thread at a time may use a pipeline.",
      py::is_final());
  type.attr("__module__") = "kiln";
  construct_with(type, py::cpp_function(&make_pipeline, py::name(kPipelineName), py::arg("device") = py::none(),
                                        py::arg("depth") = 3, py::kw_only(), py::arg("timed") = false));
  type.def_property_readonly(
          "device", [](const OffloadPipelineObject& self) { return to_string(self.device()); }, "\"cpu\", \"cuda:0\".")
      .def_property_readonly("depth", &OffloadPipelineObject::depth)
      .def_property_readonly("timed", &OffloadPipelineObject::is_timed, "Whether spans() is to be had.")
      .def("run", &OffloadPipelineObject::run, py::arg("chunks"), py::arg("compute"), py::arg("stream") = py::none(),
           "Calls compute(chunk, tensors, stream) for each chunk in order, between the copies of its tensors. A chunk "
           "is "
           "a list of arrays on the CPU, dense and on a GPU page-locked, which are loaded; (array, \"store\") is only "
           "copied back, (array, \"load_and_store\") both. `tensors` are the device's copies, a kiln.Tensor each, in "
           "the "
           "chunk's order; later chunks write over them. Calls of Kiln in `compute` that are given no stream run on "
           "`stream`. Returns when all is enqueued: the stream is done when the last result is in CPU memory, and the "
           "arrays are held until then. What compute raises comes out once everything enqueued so far is done. "
           "ValueError, before anything runs, for arrays that cannot be copied so.")
      .def(
          "spans", &OffloadPipelineObject::spans,
          "When the stages of the last run ran: (stage, chunk, start_us, end_us) each, in the order in which they were "
          "enqueued. Stages are \"load\", \"compute\" and \"store\"; times are microseconds behind the run's start. "
          "Waits for them; empty before the first run. ValueError for a pipeline that is not timed.")
      .def("__repr__", [](const OffloadPipelineObject& self) {
        return fmt::format("<kiln.OffloadPipeline {} depth={}{}{}>", to_string(self.device()), self.depth(),
                           self.is_timed() ? " timed" : "", self.is_closed() ? ", closed" : "");
      });
  define_closing(type, "Gives its memory on the device back, once what still runs is done.");
}

}  // namespace kiln::python
