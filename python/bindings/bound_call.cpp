#include "python/bindings/bound_call.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/errors.hpp"
#include "python/bindings/array_reading.hpp"
#include "python/bindings/attributes.hpp"
#include "python/bindings/stream.hpp"
#include "python/bindings/tensor_meta.hpp"
#include "registry/plan/numbered_tensors.hpp"
#include "registry/plan/registry.hpp"
#include "registry/plan/validation.hpp"

namespace kiln::python {
namespace {

/// The tensors in the order of the spec's inputs. Those given by name go behind those given by position; what is left
/// out between them is None. A repeated input may be one list, whose arrays take its place.
py::tuple positional(const OpSpec& spec, const py::sequence& tensors, py::dict& arguments) {
  py::list all(tensors);
  for (std::size_t i = 0; i < spec.inputs.size(); ++i) {
    const py::str name(spec.inputs[i].name);
    if (!arguments.contains(name)) continue;
    if (i < tensors.size())
      throw_type_error(
          fmt::format("op '{}': input '{}' is given by position and by name", spec.name, spec.inputs[i].name));
    while (all.size() < i) all.append(py::none());
    all.append(arguments[name]);
    arguments.attr("pop")(name);
  }
  if (spec.inputs.empty() || !spec.inputs.back().repeated || all.size() != spec.inputs.size()) return all;
  const py::object last = all[all.size() - 1];
  if (!PyList_Check(last.ptr()) && !PyTuple_Check(last.ptr())) return all;
  all.attr("pop")();
  all.attr("extend")(last);
  return all;
}

}  // namespace

BoundCall::BoundCall(const std::string& op, const py::sequence& tensors, const py::dict& arguments, bool metas_allowed,
                     Device meta_device)
    : spec(Registry::process().get(op)) {
  py::dict left(arguments.attr("copy")());
  objects_ = positional(spec, tensors, left);
  check_num_tensors(spec.name, objects_.size(), 0);
  for (const py::handle object : objects_) add(object, metas_allowed, meta_device);
  check_left_out(spec, left_out);
  while (!views.empty() && left_out[views.size() - 1]) {
    views.pop_back();
    arrays.pop_back();
  }
  if (spec.inputs.empty() && left.contains("device")) {
    device_ = parse_device(py::str(left["device"]).cast<std::string>());
    left.attr("pop")("device");
  }
  bool is_first = true;
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    const ArrayArgument& array = arrays[i];
    if (left_out[i] || array.tensor.device() != device()) continue;
    kind = is_first ? array.kind : stream_kind(kind, array.kind);
    is_first = false;
  }
  attributes = attributes_from(spec, py::reinterpret_borrow<py::kwargs>(left));
}

void BoundCall::add(py::handle object, bool metas_allowed, Device meta_device) {
  ArrayArgument array;
  left_out[arrays.size()] = object.is_none();
  if (metas_allowed && py::isinstance<TensorMeta>(object)) {
    const auto& meta = object.cast<const TensorMeta&>();
    left_out[arrays.size()] = meta.absent;
    array.tensor = Tensor(placeholder(meta, meta_device), {});
  } else if (!object.is_none()) {
    array = array_argument(object, spec.inputs.empty() ? "input" : input_spec(spec, arrays.size()).name);
  }
  views.push_back(array.tensor.view());
  arrays.push_back(std::move(array));
}

Device BoundCall::device() const noexcept {
  const auto on_gpu =
      std::find_if(views.begin(), views.end(), [](const TensorView& view) { return view.device.is_cuda(); });
  return on_gpu != views.end() ? on_gpu->device : device_;
}

Stream BoundCall::stream(py::handle stream_or_none) const {
  return stream_argument(stream_or_none, device(), kind);
}

}  // namespace kiln::python
