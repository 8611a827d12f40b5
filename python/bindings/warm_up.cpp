#include "registry/dispatch/warm_up.hpp"

#include <fmt/format.h>

#include <deque>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/errors.hpp"
#include "python/bindings/array_reading.hpp"
#include "python/bindings/attributes.hpp"
#include "python/bindings/bound_call.hpp"
#include "python/bindings/config.hpp"
#include "python/bindings/gil.hpp"
#include "python/bindings/op_object.hpp"
#include "python/bindings/warm_up.hpp"
#include "registry/plan/unknown_op_error.hpp"
#include "runtime/device_info.hpp"

namespace kiln::python {
namespace {

constexpr std::string_view kExpected = "expected ";
constexpr const char* kForm =
    "expected (op, tensors) or (op, tensors, keywords), as in (\"add\", [x, y], {\"alpha\": 2})";

py::object take(py::dict& keywords, const char* name) {
  return keywords.contains(name) ? py::object(keywords.attr("pop")(name)) : py::none();
}

py::tuple tuple_of(py::handle one_or_more) {
  const bool is_list = PyList_Check(one_or_more.ptr()) || PyTuple_Check(one_or_more.ptr());
  return is_list ? py::tuple(py::reinterpret_borrow<py::object>(one_or_more)) : py::make_tuple(one_or_more);
}

/// `kept` holds the arrays that the call names.
WarmUpCall call_of(py::handle given, std::deque<BoundCall>& kept, std::deque<ArrayArgument>& kept_outputs) {
  if (!PyTuple_Check(given.ptr()) && !PyList_Check(given.ptr())) throw_type_error(kForm);
  const py::tuple parts = tuple_of(given);
  if (parts.size() < 2 || parts.size() > 3 || (parts.size() == 3 && !PyDict_Check(py::object(parts[2]).ptr())))
    throw_type_error(kForm);
  py::dict keywords;
  if (parts.size() == 3) keywords = py::dict(py::object(parts[2]).attr("copy")());
  const py::object op = parts[0];
  WarmUpCall call;
  call.op = is_op(op) ? names_of(op).spec->name : names_of(op_object(op)).spec->name;
  call.config = optional_config_argument(take(keywords, "config"));
  if (const py::object tuning = take(keywords, "tuning"); !tuning.is_none())
    call.tuning = parse_tuning_policy(py::str(tuning).cast<std::string>());
  if (const py::object overlap = take(keywords, "overlap_previous"); !overlap.is_none())
    call.overlap_previous = overlap.cast<bool>();
  if (const py::object any_rows = take(keywords, "any_rows"); !any_rows.is_none())
    call.any_rows = any_rows.cast<bool>();
  Device place;
  if (const py::object device = take(keywords, "device"); !device.is_none()) {
    place = parse_device(py::str(device).cast<std::string>());
    device_info(place);  // says which devices there are when this one is not
    call.device = place;
  }
  if (const py::object out = take(keywords, "out"); !out.is_none())
    for (const py::handle array : tuple_of(out))
      call.outputs.push_back(kept_outputs.emplace_back(array_argument(array, "out")).tensor.view());
  const BoundCall& bound =
      kept.emplace_back(call.op, tuple_of(py::object(parts[1])), keywords, /*metas_allowed=*/true, place);
  call.inputs = bound.views;
  alignas(kTensorMapAlignmentBytes) static std::byte scalar[8];  // without memory it would pass for an input left out
  for (std::size_t i = 0; i < call.inputs.size(); ++i)
    if (!bound.left_out[i] && is_absent(call.inputs[i])) call.inputs[i].data = scalar;
  call.attributes = bound.attributes;
  if (bound.spec.inputs.empty()) return call;
  if (!call.inputs.empty() && call.device && bound.device() != *call.device)
    throw_value_error(
        fmt::format("device is {}, and the tensors are on {}", to_string(*call.device), to_string(bound.device())));
  call.device.reset();  // that of the tensors
  return call;
}

void warm_up_calls(const py::object& given, const py::object& threads) {
  const int num_threads = small_argument(threads, "warm_up: num_threads");
  if (!py::isinstance<py::iterable>(given))
    throw_type_error(fmt::format("warm_up: calls is a {}; expected a list of calls, each of which is {}",
                                 Py_TYPE(given.ptr())->tp_name, std::string_view(kForm).substr(kExpected.size())));
  std::deque<BoundCall> kept;
  std::deque<ArrayArgument> kept_outputs;
  std::vector<WarmUpCall> calls;
  for (const py::handle one : py::reinterpret_borrow<py::iterable>(given)) {
    try {
      calls.push_back(call_of(one, kept, kept_outputs));
    } catch (const UnknownOpError& error) {
      throw UnknownOpError(error.op(), fmt::format("warm_up, call {}: {}", calls.size(), error.what()));
    } catch (const UsageError& error) {
      throw UsageError(error.kind(), fmt::format("warm_up, call {}: {}", calls.size(), error.what()));
    }
  }
  const GilReleased released;
  warm_up(calls, num_threads);
}

}  // namespace

void bind_warm_up(py::module_& module) {
  module.def(
      "warm_up", &warm_up_calls, py::arg("calls"), py::arg("num_threads") = 0,
      "Plans, compiles and loads what calls need, so that a capture, or the first request, finds everything warm.\n\n"
      "kiln.warm_up([(\"add\", [x, y]), (\"softmax\", [x], {\"dim\": 1})]): the op, its tensors, and keywords as in "
      "the "
      "call: attributes, out, config, tuning, overlap_previous; with any_rows=True the first tensor's rows stand for "
      "any "
      "number of them, as a weight is multiplied by. A kiln.TensorMeta stands for a tensor that is not "
      "there "
      "yet, on the keyword `device`. Works on `num_threads` threads; 0: one for each core, 16 at most.");
}

}  // namespace kiln::python
