#pragma once

#include <pybind11/pybind11.h>

namespace kiln::python {

namespace py = pybind11;

/// tuning_entries and tuning_entry_of: what the tuning database knows, as dicts.
void bind_tuning_history(py::module_& module);

}  // namespace kiln::python
