#include "python/bindings/resolved_op.hpp"

#include <structmember.h>

#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "core/errors.hpp"
#include "python/bindings/config.hpp"
#include "python/bindings/errors.hpp"
#include "python/bindings/gil.hpp"
#include "python/bindings/results.hpp"
#include "python/bindings/vectorcall_type.hpp"
#include "registry/dispatch/dispatch.hpp"

namespace kiln::python {
namespace {

/// kiln.ResolvedOp, made by hand as kiln.Op is.
struct ResolvedObject {
  PyObject base;
  vectorcallfunc vectorcall;
  const OpNames* names;
  ResolvedOp* op;
  Device device;  ///< where it runs when no tensor says so
  PyObject* weak_references;
};

PyTypeObject* g_type = nullptr;  // lives as long as the process

ResolvedObject* as_resolved(PyObject* self) {
  return reinterpret_cast<ResolvedObject*>(self);
}

std::vector<TensorView> views_of(std::span<const Tensor> tensors) {
  return {tensors.begin(), tensors.end()};
}

py::object call(const ResolvedObject& self, PyObject* const* arguments, std::size_t num_positional,
                PyObject* keywords) {
  const CallArguments call(*self.names, arguments, num_positional, keywords, CallArguments::Accepts::tensors_and_stream,
                           self.device);
  std::array<TensorView, kMaxTensors> views;
  std::size_t count = 0;
  for (const Tensor& tensor : call.inputs()) views[count++] = tensor.view();
  const std::span<const TensorView> inputs(views.data(), count);
  if (!call.outputs().empty() || self.op->outputs().empty()) {
    for (const Tensor& tensor : call.outputs()) {
      if (count == kMaxTensors) throw_value_error("a call has at most " + std::to_string(kMaxTensors) + " tensors");
      views[count++] = tensor.view();
    }
    {
      const GilReleased released;
      (*self.op)(inputs, std::span(views).subspan(inputs.size(), count - inputs.size()), call.stream());
      call.wait_if_borrowed();
    }
    call.note_launch();
    return call.given_results();
  }
  Results results(call);
  {
    GilReleasedLater gil;
    if (call.device().is_cuda()) gil.release();  // as kiln.Op's calls
    for (const TensorMeta& meta : self.op->outputs()) {
      if (count == kMaxTensors) throw_value_error("a call has at most " + std::to_string(kMaxTensors) + " tensors");
      views[count++] = results.allocate(meta, call.stream()).view();
    }
    gil.release();
    (*self.op)(inputs, std::span(views).subspan(inputs.size(), count - inputs.size()), call.stream());
    call.wait_if_borrowed();
  }
  call.note_launch();
  return results.to_python();
}

PyObject* vectorcall(PyObject* self, PyObject* const* arguments, std::size_t flags, PyObject* keywords) {
  try {
    return call(*as_resolved(self), arguments, static_cast<std::size_t>(PyVectorcall_NARGS(flags)), keywords)
        .release()
        .ptr();
  } catch (...) {
    set_python_error();
    return nullptr;
  }
}

PyObject* get_report(PyObject* self, void*) {
  try {
    return py::cast(as_resolved(self)->op->report(), py::return_value_policy::copy).release().ptr();
  } catch (...) {
    set_python_error();
    return nullptr;
  }
}

PyObject* get_outputs(PyObject* self, void*) {
  try {
    py::list list;
    for (const TensorMeta& meta : as_resolved(self)->op->outputs()) list.append(py::cast(meta));
    return list.release().ptr();
  } catch (...) {
    set_python_error();
    return nullptr;
  }
}

PyObject* get_name(PyObject* self, void*) {
  return PyUnicode_FromString(as_resolved(self)->names->spec->name.c_str());
}

PyObject* represent(PyObject* self) {
  const PlanReport& report = as_resolved(self)->op->report();
  return PyUnicode_FromFormat("<kiln.ResolvedOp %s, variant %s, config %s (%s)>",
                              as_resolved(self)->names->spec->name.c_str(), report.variant.c_str(),
                              to_string(report.config).c_str(), report.config_source.c_str());
}

void deallocate(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  if (as_resolved(self)->weak_references != nullptr) PyObject_ClearWeakRefs(self);
  delete as_resolved(self)->op;
  type->tp_free(self);
  Py_DECREF(type);
}

PyGetSetDef g_properties[] = {
    {"name", get_name, nullptr, "The op's name.", nullptr},
    {"report", get_report, nullptr, "kiln.PlanReport: variant, config and kernels, and where they came from.", nullptr},
    {"outputs", get_outputs, nullptr, "kiln.TensorMeta of each output, for allocating them.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};
PyMemberDef g_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(ResolvedObject, vectorcall), READONLY, nullptr},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(ResolvedObject, weak_references), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr},
};

const char* origin_text(ArtifactCache::Origin origin) {
  switch (origin) {
    case ArtifactCache::Origin::memory:
      return "memory";
    case ArtifactCache::Origin::disk:
      return "disk";
    case ArtifactCache::Origin::compiled:
      break;
  }
  return "compiled";
}

void bind_report(py::module_& module) {
  py::class_<PlanReport::Kernel> kernel(module, "PlanKernel", "One kernel of a plan.");
  kernel.attr("__module__") = "kiln";
  kernel.def_readonly("name", &PlanReport::Kernel::name, "Its template's instance.")
      .def_readonly("artifact_key", &PlanReport::Kernel::artifact_key, "Its name in the kernel cache.")
      .def_property_readonly(
          "artifact_origin", [](const PlanReport::Kernel& self) { return origin_text(self.artifact_origin); },
          "Where the machine code came from: \"memory\", \"disk\" or \"compiled\".")
      .def_readonly("artifact_us", &PlanReport::Kernel::artifact_us, "Microseconds for getting the machine code.")
      .def_readonly("load_us", &PlanReport::Kernel::load_us, "Microseconds for loading it.")
      .def_readonly("overlaps_previous", &PlanReport::Kernel::overlaps_previous,
                    "Whether it starts while the work before it still runs, as overlap_previous=True asks for.");
  py::class_<PlanReport> report(module, "PlanReport", "What a call runs, and where its parts came from.");
  report.attr("__module__") = "kiln";
  report.def_readonly("variant", &PlanReport::variant)
      .def_property_readonly("config", [](const PlanReport& self) { return to_python(self.config); })
      .def_readonly("config_source", &PlanReport::config_source,
                    "\"given\", \"tuned\", \"tuned for <shapes>\" or \"default\".")
      .def_property_readonly("kernels",
                             [](const PlanReport& self) {
                               py::list list;
                               for (const PlanReport::Kernel& item : self.kernels) list.append(py::cast(item));
                               return list;
                             })
      .def_property_readonly("flops", [](const PlanReport& self) { return self.cost.flops; })
      .def_property_readonly("bytes", [](const PlanReport& self) { return self.cost.bytes; })
      .def("__repr__", [](const PlanReport& self) {
        return "<kiln.PlanReport variant " + self.variant + ", config " + to_string(self.config) + " (" +
               self.config_source + ")>";
      });
}

}  // namespace

py::object resolve_op(const OpNames& names, PyObject* const* arguments, std::size_t num_positional,
                      PyObject* keywords) {
  const CallArguments call(names, arguments, num_positional, keywords);
  const std::vector<TensorView> inputs = views_of(call.inputs());
  std::optional<ResolvedOp> resolved;
  {
    const GilReleased released;
    resolved = resolve(names.spec->name, inputs, call.attributes(), call.options());
  }
  auto* object = reinterpret_cast<ResolvedObject*>(g_type->tp_alloc(g_type, 0));
  if (object == nullptr) throw py::error_already_set();
  object->vectorcall = vectorcall;
  object->names = &names;
  object->op = new ResolvedOp(*std::move(resolved));
  object->device = call.device();
  return py::reinterpret_steal<py::object>(reinterpret_cast<PyObject*>(object));
}

void bind_resolved_op(py::module_& module) {
  bind_report(module);
  PyType_Slot slots[] = {
      {Py_tp_doc, const_cast<char*>("ResolvedOp(*tensors, out=None, stream=None)\n--\n\n"
                                    "An op bound to shapes, strides, dtypes, attributes, device and config by "
                                    "kiln.resolve.\n\nCalling it looks nothing up. Tensors must have the metadata it "
                                    "was resolved with, else ValueError.")},
      {Py_tp_call, slot(PyVectorcall_Call)},
      {Py_tp_dealloc, slot(deallocate)},
      {Py_tp_repr, slot(represent)},
      {Py_tp_getset, g_properties},
      {Py_tp_members, g_members},
      {0, nullptr},
  };
  g_type = make_vectorcall_type("kiln.ResolvedOp", sizeof(ResolvedObject), slots);
  module.attr("ResolvedOp") = py::handle(reinterpret_cast<PyObject*>(g_type));
}

}  // namespace kiln::python
