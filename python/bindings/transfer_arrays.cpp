#include "python/bindings/transfer_arrays.hpp"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "core/errors.hpp"
#include "python/bindings/array_reading.hpp"
#include "python/bindings/gil.hpp"
#include "python/bindings/held_arrays.hpp"
#include "python/bindings/stream.hpp"
#include "python/bindings/tensor_object.hpp"
#include "python/bindings/torch_version.hpp"
#include "runtime/recording.hpp"

namespace kiln::python {
const Tensor& TransferArrays::add(py::handle array, std::string_view name, Access access) {
  if (array.is_none()) throw_type_error(fmt::format("{}: expected an array, got None", name));
  Array added{array_argument(array, name), share(py::reinterpret_borrow<py::object>(array)), access, {}};
  if (access == Access::written && added.argument.read_only)
    throw_value_error(fmt::format("{} is read-only, and the transfer writes it; pass a writeable array", name));
  if (added.argument.kind == ArrayKind::kiln) added.own = py::cast<const TensorObject*>(array)->stream;
  return arrays_.emplace_back(std::move(added)).argument.tensor;
}

Stream TransferArrays::stream(py::handle given, Device device) const {
  ArrayKind kind = ArrayKind::other;
  for (const Array& array : arrays_) kind = stream_kind(array.argument.kind, kind);
  return stream_argument(given, device, kind);
}

void TransferArrays::order(Stream stream) const {
  for (const Array& array : arrays_)
    if (array.own.device.is_cuda() && array.own.handle != stream.handle && !is_capturing(stream) &&
        !is_capturing(array.own))
      wait_stream(stream, array.own);
}

void TransferArrays::hold(Stream stream) const {
  if (const std::shared_ptr<Recording> recording = Recording::of(stream)) {
    for (const Array& array : arrays_) {
      recording->keep(array.object, array.argument.tensor.data());
      recording->keep(array.argument.tensor.owner(), array.argument.tensor.data());
    }
    return;
  }
  if (!stream.device.is_cuda() || is_capturing(stream)) return;
  std::vector<std::shared_ptr<void>> owners;
  for (const Array& array : arrays_) {
    if (array.own.device.is_cuda() && array.own.handle != stream.handle && !is_capturing(array.own))
      wait_stream(array.own, stream);
    owners.push_back(array.object);
    owners.push_back(array.argument.tensor.owner());
  }
  hold_until_done(stream, std::move(owners));
}

void TransferArrays::note_changes() const {
  std::vector<PyObject*> changed;
  for (const Array& array : arrays_)
    if (array.access == Access::written && array.argument.kind == ArrayKind::torch)
      changed.push_back(static_cast<PyObject*>(array.object.get()));
  if (!changed.empty()) increment_versions(changed);
}

}  // namespace kiln::python
