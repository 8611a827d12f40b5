#include "python/bindings/checking.hpp"

#include "core/errors.hpp"
#include "python/bindings/array.hpp"
#include "python/bindings/array_reading.hpp"
#include "python/bindings/gil.hpp"
#include "registry/inspection/comparison.hpp"
#include "runtime/memory.hpp"

namespace kiln::python {
namespace {

/// No result looks like it by accident: a NaN as fp8, a huge negative number as most others.
constexpr std::uint8_t kPoison = 0xFF;

py::dict compare_arrays(py::handle actual, py::handle expected, double relative, double absolute) {
  const ArrayArgument got = array_argument(actual, "actual");
  const ArrayArgument wanted = array_argument(expected, "expected");
  Comparison result;
  {
    const GilReleased released;
    result = compare(got.tensor, wanted.tensor, {relative, absolute});
  }
  py::dict made;
  made["num_elements"] = result.num_elements;
  made["num_wrong"] = result.num_wrong;
  made["max_error"] = result.max_error;
  made["allowed_error"] = result.worst_allowed;
  const bool has_worst = result.worst_index >= 0;
  const DType dtype = got.tensor.dtype();
  const std::string where = has_worst ? coordinates(result.worst_index, got.tensor.shape()) : std::string();
  made["worst_index"] = where;
  made["actual"] = has_worst ? format_element(result.worst_actual, dtype) : std::string();
  made["expected"] = has_worst ? format_element(result.worst_expected, dtype) : std::string();
  return made;
}

void poison(py::handle array) {
  const ArrayArgument argument = array_argument(array, "array");
  const Stream stream = Stream::default_of(argument.tensor.device());
  const GilReleased released;
  memset_bytes(argument.tensor, kPoison, stream);
  synchronize(stream);
}

}  // namespace

void bind_checking(py::module_& module) {
  module.def("compare", &compare_arrays, py::arg("actual"), py::arg("expected"), py::arg("relative"),
             py::arg("absolute"), "Element by element, two dense CPU arrays of one dtype and shape.");
  module.def("poison", &poison, py::arg("array"), "Fills a dense array with bytes that no result holds.");
}

}  // namespace kiln::python
