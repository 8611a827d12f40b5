#pragma once

#include <fmt/format.h>
#include <pybind11/pybind11.h>

#include <string>
#include <vector>

namespace kiln::python {

namespace py = pybind11;

/// Makes the type kiln's, and adds to_dict(), for pandas: the attributes `names`, and those that have a to_dict of
/// their own as what that gives.
template <typename Type>
void define_dict(py::class_<Type>& type, std::vector<const char*> names) {
  type.attr("__module__") = "kiln";
  const auto to_dict = [names](const py::object& self) {
    py::dict dict;
    for (const char* name : names) {
      const py::object value = self.attr(name);
      dict[name] = py::hasattr(value, "to_dict") ? py::object(value.attr("to_dict")()) : value;
    }
    return dict;
  };
  type.def("to_dict", to_dict, "The attributes as a dict, for pandas and JSON.");
  type.def("__repr__", [to_dict, name = std::string(py::str(type.attr("__name__")))](const py::object& self) {
    return fmt::format("<kiln.{} {}>", name, py::str(to_dict(self)).template cast<std::string>());
  });
}

}  // namespace kiln::python
