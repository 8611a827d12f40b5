#pragma once

#include <pybind11/pybind11.h>

#include <optional>

#include "python/bindings/array.hpp"
#include "runtime/stream.hpp"

namespace kiln::python {

/// The stream of a call on `device`: the one given (a kiln.Stream, an integer handle, an object with `cuda_stream` as
/// torch has it, `ptr` as CuPy has it, or `__cuda_stream__`), else that of the innermost StreamScope, else the current
/// stream of the library `kind` for that device, else the default stream. On the CPU any other than a kiln.Stream is an
/// error, and None the CPU's. UsageError: value for a kiln.Stream of another device, type for anything else.
Stream stream_argument(py::handle stream_or_none, Device device, ArrayKind kind);
/// Of two libraries with arrays in one call, the one whose current stream the call runs on: torch, then CuPy, which
/// have such streams; else the first.
constexpr ArrayKind stream_kind(ArrayKind first, ArrayKind second) noexcept {
  if (first == ArrayKind::torch || second == ArrayKind::torch) return ArrayKind::torch;
  return second == ArrayKind::cupy ? second : first;
}
/// Whose current stream work without arrays of its own most likely follows: torch, then CuPy, where they are loaded.
ArrayKind library_of_streams();
/// The CUstream of a stream object or integer. UsageError(type) for anything else.
void* stream_handle(py::handle stream);

/// A stream object of Kiln's, torch's or CuPy's, of the device it names. `device`: of one that names none, such as an
/// integer, and of None, which is the current stream there. UsageError(type) where neither says a device.
Stream any_stream(py::handle object, std::optional<Device> device);

}  // namespace kiln::python
