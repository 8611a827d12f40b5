#pragma once

#include <pybind11/pybind11.h>

#include <memory>
#include <utility>

#include "core/target.hpp"
#include "ops/op_spec.hpp"
#include "python/bindings/gil.hpp"

namespace kiln::python {

namespace py = pybind11;

/// A Python function that C++ may copy, call and let go of anywhere. Calling it needs the GIL.
class Callback {
 public:
  explicit Callback(py::object function) : function_(share(std::move(function))) {}

  template <typename... Arguments>
  py::object operator()(Arguments&&... arguments) const {
    return py::handle(static_cast<PyObject*>(function_.get()))(std::forward<Arguments>(arguments)...);
  }

 private:
  std::shared_ptr<void> function_;
};

/// A call as the package's callbacks take it: a list for the inputs and one for the outputs, each tensor as the tuple
/// (dtype, shape, strides in elements, device, whether it is absent), and the attributes as a dict.
py::list describe(const CallInputs& tensors);
py::tuple describe(const OpCall& call);
/// What the call is compiled for: "cpu" or "cuda", the architecture, and how many processors there are, 0 where that is
/// not known.
py::tuple describe_target(const OpCall& call, const Target& target);

}  // namespace kiln::python
