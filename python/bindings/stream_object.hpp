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

/// A stream object of Kiln's, torch's or CuPy's, of the device it names. `device`: of one that names none, such as an
/// integer, and of None, which is the current stream there. UsageError(type) where neither says a device.
Stream any_stream(py::handle object, std::optional<Device> device);
/// The device that is meant where none is given: the first GPU, where there is one. As the `kiln` command has it.
Device device_or_default(py::handle device);

/// Where calls of this thread run that are given no stream, while it lives.
class StreamScope {
 public:
  /// `is_torchs`: torch's own current stream is set to it as well, and may be another by the time of a call.
  StreamScope(Stream stream, bool is_torchs);
  ~StreamScope();
  StreamScope(const StreamScope&) = delete;
  StreamScope& operator=(const StreamScope&) = delete;

  /// The innermost of this thread on `device`.
  static std::optional<Stream> current(Device device, bool for_torch) noexcept;
};

/// Defines kiln.Stream, kiln.Event, wait_stream, fork_join and stream_priority_range.
void bind_stream(py::module_& module);

}  // namespace kiln::python
