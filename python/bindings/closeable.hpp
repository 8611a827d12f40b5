#pragma once

#include <fmt/format.h>
#include <pybind11/pybind11.h>

#include <memory>
#include <utility>

#include "core/errors.hpp"
#include "python/bindings/gil.hpp"

namespace kiln::python {

namespace py = pybind11;

/// What a Python object holds that close() or the end of a `with` block lets go of. A call that is under way has its
/// own share, so that another thread may close meanwhile. All members need the GIL, which is not held while the value
/// is destroyed.
template <typename T>
class Closeable {
 public:
  /// `name` of the Python type, for messages.
  Closeable(const char* name, std::shared_ptr<T> value) : name_(name), value_(std::move(value)) {}
  ~Closeable() { close(); }
  Closeable(const Closeable&) = delete;
  Closeable& operator=(const Closeable&) = delete;

  /// UsageError(value) when it was closed.
  std::shared_ptr<T> get() const {
    if (value_ == nullptr) throw_value_error(fmt::format("this kiln.{} is closed; make another", name_));
    return value_;
  }
  bool is_closed() const noexcept { return value_ == nullptr; }
  void close() noexcept {
    if (value_ != nullptr) destroy_without_gil(std::exchange(value_, nullptr));
  }

 private:
  const char* name_;
  std::shared_ptr<T> value_;
};

/// Gives a type whose objects have close() and is_closed() the methods of that name, and those of `with`.
template <typename Type>
void define_closing(py::class_<Type>& type, const char* doc) {
  type.def("close", &Type::close, doc)
      .def_property_readonly("closed", &Type::is_closed, "Whether close() was called or a with block ended.")
      .def("__enter__", [](py::object self) { return self; })
      .def("__exit__", [](Type& self, py::handle, py::handle, py::handle) { self.close(); });
}

}  // namespace kiln::python
