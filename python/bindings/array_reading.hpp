#pragma once

#include <optional>
#include <string_view>

#include "python/bindings/array.hpp"

namespace kiln::python {

/// UsageError(type) naming the argument and what to give instead, for lists, Python numbers, dtypes Kiln does not have,
/// memory of other devices, torch tensors that autograd watches. Needs the GIL.
ArrayArgument array_argument(py::handle object, std::string_view argument_name);

/// array_argument in `tensor`, which is a new one, and without the argument's name, for the path of every call: errors
/// say only what is wrong, and name_array_error adds whose it is. `stream`: where the call will run, if that is known,
/// for libraries that make their work wait for the consumer's stream.
ArraySource read_array(PyObject* object, Tensor& tensor, std::optional<void*> stream);
/// Throws the exception being handled again, with the argument's name where it is about the array.
[[noreturn]] void name_array_error(std::string_view argument_name);

}  // namespace kiln::python
