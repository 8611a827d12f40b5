#pragma once

#include <pybind11/pybind11.h>

#include <string_view>

#include "core/attributes.hpp"
#include "core/dtype.hpp"
#include "ops/op_spec.hpp"

namespace kiln::python {

namespace py = pybind11;

/// A Python value as the attribute's type: bool, int (anything with __index__), float, str, dtypes (dtype_argument),
/// sequences of integers, None. The dispatcher checks it against the spec; this throws UsageError(type), naming op and
/// attribute, only for what no attribute can be.
AttributeValue attribute_value(py::handle value, const AttributeSpec& spec, std::string_view op);
/// None, bool, int, float, str, kiln.DType or a list of int.
py::object to_python(const AttributeValue& value);
/// Keyword arguments as attributes. UsageError(value) for a name the op does not have, with the nearest it has.
Attributes attributes_from(const OpSpec& spec, const py::kwargs& arguments);
py::dict to_python(const Attributes& attributes);

/// An int or what stands for one (__index__), within 64 bits. `label` begins the message of what is not.
std::int64_t integer_argument(py::handle value, std::string_view label);
/// Likewise, of what C++ counts in an int.
int small_argument(py::handle value, std::string_view label);
/// kiln.DType, a name ("f32", "float32"), a NumPy dtype or scalar type (ml_dtypes' too), a torch.dtype, bool, int or
/// float (bool, i64, f64 as NumPy has them). UsageError: value for an unknown name, type for what is no dtype.
DType dtype_argument(py::handle object);
/// The member of kiln.DType.
py::object to_python(DType dtype);

/// Defines kiln.DType.
void bind_dtype(py::module_& module);

}  // namespace kiln::python
