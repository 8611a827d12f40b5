#include "python/bindings/attributes.hpp"

#include <fmt/format.h>

#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "core/errors.hpp"

namespace kiln::python {
namespace {

[[noreturn]] void refuse(py::handle value, std::string_view attribute, std::string_view op, std::string_view why) {
  throw_type_error(fmt::format("op '{}': attribute '{}' is a {}{}", op, attribute, Py_TYPE(value.ptr())->tp_name, why));
}

[[noreturn]] void refuse_range(PyObject* value, const AttributeSpec& spec, std::string_view op) {
  throw_value_error(fmt::format("op '{}': attribute '{}' = {} does not fit 64 bits", op, spec.name,
                                py::str(py::handle(value)).cast<std::string>()));
}

AttributeValue integer(PyObject* value, const AttributeSpec& spec, std::string_view op) {
  int overflow = 0;
  const long long result = PyLong_AsLongLongAndOverflow(value, &overflow);
  if (overflow < 0) refuse_range(value, spec, op);
  if (overflow > 0) {
    const unsigned long long large = PyLong_AsUnsignedLongLong(value);
    if (PyErr_Occurred() == nullptr) return std::uint64_t{large};
    PyErr_Clear();
    refuse_range(value, spec, op);
  }
  if (result == -1 && PyErr_Occurred() != nullptr) throw py::error_already_set();
  return std::int64_t{result};
}

AttributeValue index(py::handle value, const AttributeSpec& spec, std::string_view op) {
  const auto number = py::reinterpret_steal<py::object>(PyNumber_Index(value.ptr()));
  if (!number) throw py::error_already_set();
  return integer(number.ptr(), spec, op);
}

/// Whether something is an array with elements rather than a number: reading one may wait for a GPU.
bool is_array(py::handle value) {
  return py::hasattr(value, "__dlpack__") || py::hasattr(value, "__cuda_array_interface__");
}

std::optional<std::vector<std::int64_t>> integers(py::handle value, const AttributeSpec& spec, std::string_view op) {
  if (!PyList_Check(value.ptr()) && !PyTuple_Check(value.ptr())) return std::nullopt;
  std::vector<std::int64_t> list;
  for (const py::handle item : py::reinterpret_borrow<py::sequence>(value)) {
    if (!PyIndex_Check(item.ptr())) return std::nullopt;
    const AttributeValue number = index(item, spec, op);
    if (!std::holds_alternative<std::int64_t>(number)) refuse_range(item.ptr(), spec, op);
    list.push_back(std::get<std::int64_t>(number));
  }
  return list;
}

struct ToPython {
  py::object operator()(std::monostate) const { return py::none(); }
  py::object operator()(bool value) const { return py::bool_(value); }
  py::object operator()(std::int64_t value) const { return py::int_(value); }
  py::object operator()(std::uint64_t value) const { return py::int_(value); }
  py::object operator()(double value) const { return py::float_(value); }
  py::object operator()(const std::string& value) const { return py::str(value); }
  py::object operator()(DType value) const { return to_python(value); }
  py::object operator()(const std::vector<std::int64_t>& value) const {
    py::list list;
    for (const std::int64_t item : value) list.append(item);
    return list;
  }
};

}  // namespace

std::int64_t integer_argument(py::handle value, std::string_view label) {
  if (!PyIndex_Check(value.ptr()))
    throw_type_error(fmt::format("{}: expected an integer, got {}", label, Py_TYPE(value.ptr())->tp_name));
  const auto number = py::reinterpret_steal<py::object>(PyNumber_Index(value.ptr()));
  if (!number) throw py::error_already_set();
  int overflow = 0;
  const long long result = PyLong_AsLongLongAndOverflow(number.ptr(), &overflow);
  if (overflow != 0)
    throw_value_error(fmt::format("{}: {} does not fit 64 bits", label, py::str(number).cast<std::string>()));
  return result;
}

int small_argument(py::handle value, std::string_view label) {
  const std::int64_t number = integer_argument(value, label);
  if (number < std::numeric_limits<int>::min() || number > std::numeric_limits<int>::max())
    throw_value_error(fmt::format("{}: {} is far too many", label, number));
  return static_cast<int>(number);
}

AttributeValue attribute_value(py::handle value, const AttributeSpec& spec, std::string_view op) {
  PyObject* object = value.ptr();
  if (PyBool_Check(object)) return object == Py_True;
  if (PyLong_Check(object)) return integer(object, spec, op);
  if (PyFloat_Check(object)) return PyFloat_AS_DOUBLE(object);
  if (value.is_none()) return {};
  const bool wants_dtype = std::holds_alternative<DType>(spec.fallback);
  if (PyUnicode_Check(object)) {
    const auto text = value.cast<std::string>();
    if (wants_dtype) return parse_dtype(text);
    if (std::holds_alternative<std::monostate>(spec.fallback))
      if (const std::optional<DType> dtype = find_dtype(text)) return *dtype;
    return text;
  }
  if (const auto list = integers(value, spec, op)) return *list;
  if (PyList_Check(object) || PyTuple_Check(object))
    refuse(value, spec.name, op, " with elements that are no integers");
  if (is_array(value)) refuse(value, spec.name, op, ", and attributes are plain Python values; array.item() gives one");
  if (PyIndex_Check(object)) return index(value, spec, op);
  if (!PyType_Check(object) && py::hasattr(value, "__float__")) {  // NumPy's scalars, not their types
    if (py::hasattr(value, "dtype") && std::string_view(Py_TYPE(object)->tp_name).starts_with("numpy.bool"))
      return PyObject_IsTrue(object) == 1;
    return py::float_(py::reinterpret_borrow<py::object>(value)).cast<double>();
  }
  try {
    return dtype_argument(value);
  } catch (const UsageError&) {
    refuse(value, spec.name, op, ", which no attribute can be; give a bool, number, string, dtype or list of integers");
  }
}

py::object to_python(const AttributeValue& value) {
  return std::visit(ToPython{}, value);
}

Attributes attributes_from(const OpSpec& spec, const py::kwargs& arguments) {
  Attributes attributes;
  for (const auto& [key, value] : arguments) {
    const auto name = key.cast<std::string>();
    const AttributeSpec* found = nullptr;
    for (const AttributeSpec& attribute : spec.attributes)
      if (attribute.name == name) found = &attribute;
    attributes.set(name, found != nullptr ? attribute_value(value, *found, spec.name) : AttributeValue());
  }
  return attributes;
}

py::dict to_python(const Attributes& attributes) {
  py::dict dict;
  for (const auto& [name, value] : attributes.entries()) dict[py::str(name)] = to_python(value);
  return dict;
}

}  // namespace kiln::python
