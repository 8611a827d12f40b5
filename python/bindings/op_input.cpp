#include "python/bindings/op_input.hpp"

#include <pybind11/stl.h>

#include <cstdint>
#include <functional>
#include <string>
#include <tuple>
#include <utility>

#include "python/bindings/attributes.hpp"
#include "python/bindings/callback.hpp"
#include "python/bindings/gil.hpp"
#include "python/bindings/tensor_meta.hpp"

namespace kiln::python {
namespace {

/// Set where the dict has a function, which gives (low, high, whether they differ) of each range.
std::function<std::vector<SelectionRange>(const OpCall&)> selects_function(const py::object& selects) {
  if (selects.is_none()) return {};
  return [callback = Callback(selects)](const OpCall& call) {
    const GilAcquired gil;
    std::vector<SelectionRange> ranges;
    for (const py::handle item : callback(*describe(call))) {
      const auto [low, high, distinct] = item.cast<std::tuple<std::int64_t, std::int64_t, bool>>();
      ranges.push_back({low, high, distinct});
    }
    return ranges;
  };
}

/// Likewise; the function gives (dtype, shape) of what lies at each address that the call's input at `place` holds.
std::function<TensorView(const OpCall&)> points_to_function(const py::object& points_to, std::size_t place) {
  if (points_to.is_none()) return {};
  return [callback = Callback(points_to), place](const OpCall& call) {
    const GilAcquired gil;
    const auto [dtype, shape] = callback(*describe(call)).cast<std::pair<py::object, py::object>>();
    return dense_view(nullptr, dtype_argument(dtype), dims_argument(shape), call.inputs[place].device);
  };
}

}  // namespace

std::vector<DType> dtypes_from(const py::handle list) {
  std::vector<DType> dtypes;
  for (const py::handle dtype : list) dtypes.push_back(dtype_argument(dtype));
  return dtypes;
}

InputSpec input_from(const py::dict& given, std::size_t place) {
  InputSpec input;
  input.name = given["name"].cast<std::string>();
  input.doc = given["doc"].cast<std::string>();
  input.optional = given["optional"].cast<bool>();
  input.mutated = given["mutated"].cast<bool>();
  input.pinned = given["pinned"].cast<bool>();
  input.dtypes = dtypes_from(given["dtypes"]);
  input.selects = selects_function(given["selects"]);
  input.points_to = points_to_function(given["points_to"], place);
  return input;
}

}  // namespace kiln::python
