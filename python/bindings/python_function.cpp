#include "python/bindings/python_function.hpp"

#include <fmt/format.h>

#include <memory>
#include <string_view>
#include <utility>

#include "autotune/tuner.hpp"
#include "core/errors.hpp"
#include "python/bindings/array_reading.hpp"
#include "python/bindings/attributes.hpp"
#include "python/bindings/config.hpp"
#include "python/bindings/construction.hpp"
#include "python/bindings/gil.hpp"

namespace kiln::python {
namespace {

/// "python 3.12.4".
std::string runtime_text() {
  const std::string_view version = Py_GetVersion();
  return fmt::format("python {}", version.substr(0, version.find(' ')));
}

/// "ValueError: too many", on one line.
std::string error_line(const py::error_already_set& error) {
  const std::string message = py::str(error.value());
  const std::string name = py::str(error.type().attr("__name__"));
  const std::string line = message.substr(0, message.find('\n'));
  return line.empty() ? name : fmt::format("{}: {}", name, line);
}

}  // namespace

PythonFunction::PythonFunction(std::string name, std::string digest, const py::sequence& tensors,
                               const py::dict& attributes, const std::string& device, py::object call)
    : objects_(tensors), device_(parse_device(device)), call_(std::move(call)) {
  function_.name = std::move(name);
  function_.digest = std::move(digest);
  function_.runtime = runtime_text();
  for (const py::handle object : objects_) {
    arrays_.push_back(array_argument(object, function_.name));
    function_.tensors.push_back(arrays_.back().tensor.view());
  }
  for (const auto& [key, value] : attributes) {
    AttributeSpec spec;
    spec.name = key.cast<std::string>();
    function_.attributes.set(spec.name, attribute_value(value, spec, function_.name));
  }
}

TunedFunction PythonFunction::with(std::vector<Config> configs) const {
  TunedFunction function = function_;
  function.configs = std::move(configs);
  function.call = [this](const Config& config, Stream) {
    const GilAcquired gil;
    called_with(config);
  };
  function.compute = [this](const Config& config, Stream) {
    const GilAcquired gil;
    return results_of(called_with(config));
  };
  return function;
}

py::object PythonFunction::called_with(const Config& config) const {
  try {
    return call_(to_python(config));
  } catch (const py::error_already_set& error) {
    if (!error.matches(PyExc_Exception)) throw;
    const bool is_compile_error = error.matches(py::module_::import("kiln._kiln").attr("CompileError"));
    throw CandidateFailure(is_compile_error ? Outcome::uncompiled : Outcome::unlaunched, error_line(error));
  }
}

std::vector<Tensor> PythonFunction::results_of(const py::object& returned) const {
  const bool is_several = PyTuple_Check(returned.ptr()) || PyList_Check(returned.ptr());
  std::vector<Tensor> results;
  for (const py::handle object : is_several ? py::tuple(returned) : py::make_tuple(returned)) {
    if (object.is_none()) continue;
    try {
      const ArrayArgument array = array_argument(object, "result");
      if (array.tensor.device() != device_) continue;
      // The library lets go of it without the GIL.
      results.emplace_back(array.tensor.view(), share(py::reinterpret_borrow<py::object>(object)));
    } catch (const UsageError&) {
      continue;  // no array, and nothing that can be compared
    }
  }
  return results;
}

void bind_python_function(py::module_& module) {
  py::class_<PythonFunction> type(module, "PythonFunction", "A call of a function that takes a config first.",
                                  py::is_final());
  construct_with(type, py::cpp_function(
                           [](std::string name, std::string digest, const py::sequence& tensors,
                              const py::dict& attributes, const std::string& device, py::object call) {
                             return std::make_unique<PythonFunction>(std::move(name), std::move(digest), tensors,
                                                                     attributes, device, std::move(call));
                           },
                           py::name("PythonFunction"), py::arg("name"), py::arg("digest"), py::arg("tensors"),
                           py::arg("attributes"), py::arg("device"), py::arg("call")));
}

}  // namespace kiln::python
