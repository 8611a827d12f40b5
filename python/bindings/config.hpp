#pragma once

#include <pybind11/pybind11.h>

#include <optional>

#include "core/config.hpp"

namespace kiln::python {

namespace py = pybind11;

/// {"BLOCK_SIZE": 1024, "num_warps": 4} or "BLOCK_SIZE=1024 num_warps=4"; None is the empty config. UsageError: value
/// for malformed text, type for anything else.
Config config_argument(py::handle object);
/// nullopt for None.
std::optional<Config> optional_config_argument(py::handle object);
/// A dict in the config's order.
py::dict to_python(const Config& config);

}  // namespace kiln::python
