#include "python/bindings/config.hpp"

#include <fmt/format.h>

#include <string>

#include "core/errors.hpp"
#include "python/bindings/attributes.hpp"

namespace kiln::python {

Config config_argument(py::handle object) {
  if (object.is_none()) return {};
  if (py::isinstance<py::str>(object)) return parse_config(object.cast<std::string>());
  if (!py::isinstance<py::dict>(object))
    throw_type_error(fmt::format(
        "config: expected a dict like {{'BLOCK_SIZE': 1024}} or a string like 'BLOCK_SIZE=1024 num_warps=4', got {}",
        Py_TYPE(object.ptr())->tp_name));
  Config config;
  for (const auto& [name, value] : py::reinterpret_borrow<py::dict>(object)) {
    if (!py::isinstance<py::str>(name))
      throw_type_error(fmt::format("config: names of tunables are strings, got {}", Py_TYPE(name.ptr())->tp_name));
    const auto tunable = name.cast<std::string>();
    config.set(tunable, integer_argument(value, fmt::format("config: tunable '{}'", tunable)));
  }
  return config;
}

std::optional<Config> optional_config_argument(py::handle object) {
  if (object.is_none()) return std::nullopt;
  return config_argument(object);
}

py::dict to_python(const Config& config) {
  py::dict dict;
  for (const auto& [name, value] : config.entries()) dict[py::str(name)] = value;
  return dict;
}

}  // namespace kiln::python
