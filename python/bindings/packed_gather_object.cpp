#include "python/bindings/packed_gather_object.hpp"

#include <fmt/format.h>

#include <limits>
#include <memory>

#include "offload/packed_gather.hpp"
#include "python/bindings/attributes.hpp"
#include "python/bindings/closeable.hpp"
#include "python/bindings/construction.hpp"
#include "python/bindings/gpu_presence.hpp"
#include "python/bindings/one_user.hpp"
#include "python/bindings/stream_object.hpp"
#include "python/bindings/transfer_arrays.hpp"

namespace kiln::python {
namespace {

constexpr const char* kGatherName = "PackedGather";

class PackedGatherObject {
 public:
  PackedGatherObject(Device device, const PackedGatherOptions& options)
      : device_(device), gather_(kGatherName, std::make_shared<OneUser<PackedGather>>(device, options)) {}

  Device device() const noexcept { return device_; }
  void close() noexcept { gather_.close(); }
  bool is_closed() const noexcept { return gather_.is_closed(); }

  py::object run(py::object dst, py::handle src, py::handle indices, py::handle stream) {
    using Access = TransferArrays::Access;
    const std::shared_ptr<OneUser<PackedGather>> gather = gather_.get();
    TransferArrays read, written;  // what is read may change when this returns
    const Tensor& to = written.add(dst, "dst", Access::written);
    const Tensor& from = read.add(src, "src", Access::read);
    const Tensor& pairs = read.add(indices, "indices", Access::read);
    const Stream where = written.stream(stream, device_);
    {
      const GilReleased released;
      gather->use(kGatherName, [&](PackedGather& packed) {
        written.order(where);
        read.order(where);
        packed(to, from, pairs, where);
        written.hold(where);
      });
    }
    written.note_changes();
    return dst;
  }

 private:
  Device device_;
  Closeable<OneUser<PackedGather>> gather_;
};

std::unique_ptr<PackedGatherObject> make_gather(const py::object& device, py::handle chunk_bytes, py::handle depth) {
  const Device place = device_or_default(device);
  require_gpu(place, kCpuServesToo);
  PackedGatherOptions options;
  options.chunk_bytes = integer_argument(chunk_bytes, "chunk_bytes");
  options.depth = small_argument(depth, "depth");
  const GilReleased released;
  return std::make_unique<PackedGatherObject>(place, options);
}

}  // namespace

void bind_packed_gather(py::module_& module) {
  const PackedGatherOptions defaults;
  py::class_<PackedGatherObject> type(
      module, kGatherName,
      "PackedGather(device=None, *, chunk_bytes=16 << 20, depth=3)\n\nRows of a large pool in CPU memory to a GPU by "
      "way "
      "of its copy engine: CPU threads pack the rows of a chunk side by side into page-locked memory, the copy engine "
      "sends it while the next one is packed, and a kernel puts the rows where they belong. It takes pageable memory. "
      "`chunk_bytes` of rows are in one copy, `depth` chunks on their way. Of the CPU it does the same through "
      "ordinary "
      "memory. ValueError for options below 1; DeviceError where the GPU is absent. One thread at a time may use it.",
      py::is_final());
  type.attr("__module__") = "kiln";
  construct_with(type,
                 py::cpp_function(&make_gather, py::name(kGatherName), py::arg("device") = py::none(), py::kw_only(),
                                  py::arg("chunk_bytes") = defaults.chunk_bytes, py::arg("depth") = defaults.depth));
  type.def_property_readonly(
          "device", [](const PackedGatherObject& self) { return to_string(self.device()); }, "\"cpu\", \"cuda:0\".")
      .def(
          "__call__", &PackedGatherObject::run, py::arg("dst"), py::arg("src"), py::arg("indices"),
          py::arg("stream") = py::none(),
          "dst[j] = src[i] for each pair (i, j) of `indices` [requests, topk, 2] of i32 or i64; pairs with a negative "
          "number are skipped. `dst` is on the device, `src` on the CPU, `indices` on either. Returns dst when all "
          "rows "
          "are packed: src and indices may change then, and the stream has dst. ValueError or TypeError, before "
          "anything is written, for arrays that do not go together and for a pair that names a row which is not there.")
      .def("__repr__", [](const PackedGatherObject& self) {
        return fmt::format("<kiln.PackedGather {}{}>", to_string(self.device()), self.is_closed() ? ", closed" : "");
      });
  define_closing(type, "Gives its page-locked memory back, once what it sends has arrived.");
}

}  // namespace kiln::python
