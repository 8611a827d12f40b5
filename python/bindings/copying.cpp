#include "python/bindings/copying.hpp"

#include "python/bindings/gil.hpp"
#include "python/bindings/transfer_arrays.hpp"
#include "runtime/event.hpp"
#include "runtime/memory.hpp"

namespace kiln::python {
namespace {

Event copy_array(py::handle destination, py::handle source, py::handle stream) {
  using Access = TransferArrays::Access;
  TransferArrays arrays;
  const Tensor& to = arrays.add(destination, "destination", Access::written);
  const Tensor& from = arrays.add(source, "source", Access::read);
  const Stream where = arrays.stream(stream, to.device().is_cuda() ? to.device() : from.device());
  Event done = [&] {
    const GilReleased released;
    arrays.order(where);
    Event reached = copy_async(to, from, where);
    arrays.hold(where);
    return reached;
  }();
  arrays.note_changes();
  return done;
}

}  // namespace

void bind_copying(py::module_& module) {
  module.def(
      "copy_async", &copy_array, py::arg("destination"), py::arg("source"), py::arg("stream") = py::none(),
      "Copies a dense array to another of the same shape and dtype, between any two devices, and returns the "
      "kiln.Event behind the copy: done.synchronize() waits for it, done.wait(stream) has a stream do so. Both "
      "arrays are held until then; the source must not be changed before, nor the destination be read. It runs "
      "beside other work only where memory of the CPU is page-locked (PinnedPool, register_host_memory); with "
      "other memory the host waits. From CPU to CPU it is done at once. `stream`: as a call takes it. ValueError "
      "where shapes, dtypes or layouts differ, or the destination is read-only.");
}

}  // namespace kiln::python
