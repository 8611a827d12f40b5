#pragma once

#include <pybind11/pybind11.h>

#include <string>
#include <vector>

#include "python/bindings/array.hpp"
#include "registry/plan/call.hpp"
#include "runtime/stream.hpp"

namespace kiln::python {

namespace py = pybind11;

/// A call of an op as Python gives it, for what works on whole calls (tuning, timing, inspection) rather than makes
/// them. Keeps the Python arrays alive; needs the GIL to come and go.
struct BoundCall {
  /// `tensors`: arrays, or None for an optional input left out; kiln.TensorMeta where `metas_allowed`, which has no
  /// data and stands for a tensor on `meta_device`; a list of them for a repeated input. `arguments`: attributes by
  /// name, tensors by the names of inputs, and for an op without inputs the device. UsageError as dispatch_gpu_op.
  BoundCall(const std::string& op, const py::sequence& tensors, const py::dict& arguments, bool metas_allowed = false,
            Device meta_device = {});

  const OpSpec& spec;
  std::vector<ArrayArgument> arrays;
  std::vector<TensorView> views;  ///< of `arrays`
  LeftOut left_out;               ///< which of them are None
  Attributes attributes;
  ArrayKind kind = ArrayKind::numpy;  ///< of the tensors on the call's device, the one whose current stream it runs on

  /// The GPU that one of the tensors is on, else the CPU; of an op without inputs what its argument `device` says.
  Device device() const noexcept;
  /// The array of each input, in the order of `arrays`; None where it was left out.
  const py::tuple& objects() const noexcept { return objects_; }
  /// As stream_argument.
  Stream stream(py::handle stream_or_none) const;
  /// The call as it would run on `stream`. Needs no GIL. UsageError as dispatch_gpu_op.
  Call on(Stream stream) const { return validated_call(spec, inputs(), attributes, {.stream = stream}); }
  CallInputs inputs() const noexcept { return {views, left_out}; }

 private:
  void add(py::handle object, bool metas_allowed, Device meta_device);

  py::tuple objects_;
  Device device_;
};

}  // namespace kiln::python
