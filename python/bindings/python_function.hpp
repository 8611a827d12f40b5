#pragma once

#include <pybind11/pybind11.h>

#include <string>
#include <vector>

#include "python/bindings/array.hpp"
#include "registry/tuning/function_tuning.hpp"

namespace kiln::python {

namespace py = pybind11;

/// A call of a Python function that takes a config first. Keeps its arrays alive; needs the GIL to come and go.
class PythonFunction {
 public:
  /// `tensors`: the arrays among its arguments; `attributes`: the others by name, plain values; `call` is given a
  /// config as a dict and returns arrays, one or a tuple or list of them, or anything else, which is not compared.
  PythonFunction(std::string name, std::string digest, const py::sequence& tensors, const py::dict& attributes,
                 const std::string& device, py::object call);

  Device device() const noexcept { return device_; }
  /// The function as the library tunes it, which refers to this object. An exception of Python's ends a config; what is
  /// no Exception, such as KeyboardInterrupt, the tuning.
  TunedFunction with(std::vector<Config> configs) const;

 private:
  py::object called_with(const Config& config) const;
  std::vector<Tensor> results_of(const py::object& returned) const;

  TunedFunction function_;
  std::vector<ArrayArgument> arrays_;
  py::tuple objects_;
  Device device_;
  py::object call_;
};

/// Defines _kiln.PythonFunction.
void bind_python_function(py::module_& module);

}  // namespace kiln::python
