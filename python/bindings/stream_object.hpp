#pragma once

#include <pybind11/pybind11.h>

#include <memory>
#include <optional>

#include "runtime/stream.hpp"

namespace kiln::python {

namespace py = pybind11;

/// What a kiln.Stream holds. Streams that Kiln made are lent from a pool of the process that never destroys one: arrays
/// whose memory is freed on a stream may outlive every object of it.
struct StreamObject {
  Stream stream;
  std::shared_ptr<void> loan;  ///< null: a stream that somebody else lent
};

/// kiln.Stream over a stream of the pool.
py::object make_stream_object(Device device, int priority);
/// What is in a kiln.Stream; unset for any other object.
std::optional<Stream> kiln_stream(py::handle object);

/// The device that is meant where none is given: the first GPU, where there is one. As the `kiln` command has it.
Device device_or_default(py::handle device);

/// Defines kiln.Stream.
py::class_<StreamObject> define_stream(py::module_& module);

}  // namespace kiln::python
