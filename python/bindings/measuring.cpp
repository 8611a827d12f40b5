#include "python/bindings/measuring.hpp"

#include <fmt/format.h>

#include <string>

#include "core/errors.hpp"
#include "registry/tuning/op_timing.hpp"

namespace kiln::python {
namespace {

MeasuringPolicy checked(MeasuringPolicy policy, Device device) {
  const MeasuringPolicy usual = default_measuring_policy(device);
  if (!device.is_cuda() && policy != usual)
    throw_value_error(
        fmt::format("'{}' is for GPUs; on the CPU calls are made one by one over hot caches", to_string(policy)));
  return policy;
}

}  // namespace

MeasuringPolicy measuring_argument(py::handle text_or_none, Device device) {
  const MeasuringPolicy usual = default_measuring_policy(device);
  if (text_or_none.is_none()) return usual;
  if (!py::isinstance<py::str>(text_or_none))
    throw_type_error(fmt::format("measuring is {}; expected text such as \"graph, flushed L2\", or None",
                                 std::string(py::repr(text_or_none))));
  return checked(parse_measuring_policy(text_or_none.cast<std::string>(), usual), device);
}

MeasuringPolicy measuring_argument(bool graph, std::optional<bool> flush_l2, Device device) {
  MeasuringPolicy policy = default_measuring_policy(device);
  if (graph) policy.launch = MeasuringPolicy::Launch::graph;
  if (flush_l2) policy.l2 = *flush_l2 ? MeasuringPolicy::L2::flushed : MeasuringPolicy::L2::hot;
  return checked(policy, device);
}

}  // namespace kiln::python
