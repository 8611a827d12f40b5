#include "python/bindings/errors.hpp"

#include <fmt/format.h>

#include <new>
#include <string>
#include <string_view>

#include "core/errors.hpp"
#include "registry/plan/unknown_op_error.hpp"

namespace kiln::python {
namespace {

/// The exception classes; they live as long as the process.
struct ErrorTypes {
  PyObject* error = nullptr;
  PyObject* usage = nullptr;
  PyObject* usage_value = nullptr;
  PyObject* usage_type = nullptr;
  PyObject* usage_not_implemented = nullptr;
  PyObject* unknown_op = nullptr;
  PyObject* compile = nullptr;
  PyObject* device = nullptr;
  PyObject* file = nullptr;
  PyObject* internal = nullptr;
};
ErrorTypes g_types;

PyObject* define(py::module_& module, const char* name, const char* doc, const py::tuple& bases) {
  const std::string qualified = std::string("kiln.").append(name);
  PyObject* type = PyErr_NewExceptionWithDoc(qualified.c_str(), doc, bases.ptr(), nullptr);
  if (type == nullptr) throw py::error_already_set();
  module.attr(name) = py::handle(type);
  return type;
}

/// An instance with attributes of its own, set as the Python error.
void set_with(PyObject* type, const std::string& message,
              std::initializer_list<std::pair<const char*, py::object>> attributes) {
  const py::object instance = py::handle(type)(py::str(message));
  for (const auto& [name, value] : attributes) py::setattr(instance, name, value);
  PyErr_SetObject(type, instance.ptr());
}

PyObject* type_of(UsageError::Kind kind) {
  switch (kind) {
    case UsageError::Kind::type:
      return g_types.usage_type;
    case UsageError::Kind::not_implemented:
      return g_types.usage_not_implemented;
    case UsageError::Kind::value:
      break;
  }
  return g_types.usage_value;
}

/// What pybind11 throws where a value inside an argument has no C++ counterpart, which it says in words of C++.
void set_cast_error(const py::cast_error& error) {
  std::string type = "value";
  const std::string_view text = error.what();
  constexpr std::string_view kBefore = "<class '";
  if (const std::size_t start = text.find(kBefore); start != std::string_view::npos) {
    const std::string_view rest = text.substr(start + kBefore.size());
    type = rest.substr(0, rest.find('\''));
  }
  const char* advice = type == "int"   ? "no integer is expected there, or it does not fit 64 bits"
                       : type == "str" ? "no text is expected there, or it is no valid Unicode"
                                       : "another type is expected there";
  PyErr_SetString(g_types.usage_type, fmt::format("an argument holds a {} that cannot be: {}", type, advice).c_str());
}

bool is_name_character(char character) {
  return character == '_' || (character >= '0' && character <= '9') || (character >= 'a' && character <= 'z') ||
         (character >= 'A' && character <= 'Z');
}

/// "kiln::warm_up" as Python spells it, kiln.warm_up. Names of kernels, kiln::ops::copy_kernel, stay what they are.
std::string python_spelling(std::string text) {
  constexpr std::string_view kScope = "kiln::";
  for (std::size_t start = text.find(kScope); start != std::string::npos; start = text.find(kScope, start + 1)) {
    std::size_t end = start + kScope.size();
    while (end < text.size() && is_name_character(text[end])) ++end;
    if (text.compare(end, 2, "::") != 0) text.replace(start, kScope.size(), "kiln.");
  }
  return text;
}

/// Sets the Python error where the exception being handled is Kiln's; throws it on otherwise.
void translate() {
  try {
    throw;
  } catch (const UnknownOpError& error) {
    set_with(g_types.unknown_op, error.what(), {{"op", py::str(error.op())}});
  } catch (const UsageError& error) {
    PyErr_SetString(type_of(error.kind()), python_spelling(error.what()).c_str());
  } catch (const CompileError& error) {
    set_with(g_types.compile, error.what(),
             {{"op", py::str(error.op())},
              {"configuration", py::str(error.configuration())},
              {"log", py::str(error.log())}});
  } catch (const DeviceError& error) {
    set_with(
        g_types.device, error.what(),
        {{"call", py::str(error.call())}, {"code", py::int_(error.code())}, {"meaning", py::str(error.meaning())}});
  } catch (const SystemError& error) {
    PyErr_SetString(g_types.file, error.what());
  } catch (const InternalError& error) {
    PyErr_SetString(g_types.internal, error.what());
  } catch (const Error& error) {
    PyErr_SetString(g_types.error, error.what());
  }
}

}  // namespace

void bind_errors(py::module_& module) {
  const auto base = [](PyObject* type) { return py::reinterpret_borrow<py::object>(type); };
  ErrorTypes& types = g_types;
  types.error =
      define(module, "Error", "Root of everything Kiln raises of its own.", py::make_tuple(base(PyExc_Exception)));
  types.usage = define(module, "UsageError", "The caller's mistake, found before anything ran.",
                       py::make_tuple(base(types.error)));
  types.usage_value = define(module, "UsageValueError", "A value, shape, name or file content is wrong.",
                             py::make_tuple(base(types.usage), base(PyExc_ValueError)));
  types.usage_type = define(module, "UsageTypeError", "A dtype, device or argument type is wrong.",
                            py::make_tuple(base(types.usage), base(PyExc_TypeError)));
  types.usage_not_implemented =
      define(module, "UsageNotImplementedError", "Legal, but no kernel or no target serves it.",
             py::make_tuple(base(types.usage), base(PyExc_NotImplementedError)));
  types.unknown_op = define(module, "UnknownOpError", "A name that no op has.\n\nAttributes: op (the name).",
                            py::make_tuple(base(types.usage_value), base(types.usage_not_implemented)));
  const py::tuple runtime = py::make_tuple(base(types.error), base(PyExc_RuntimeError));
  types.compile =
      define(module, "CompileError",
             "A kernel that does not compile.\n\nAttributes: op, configuration, log (with source lines).", runtime);
  types.device = define(module, "DeviceError",
                        "A driver call that failed, or a device or runtime library that is absent.\n\n"
                        "Attributes: call, code (the driver's, 0 when it has none), meaning.",
                        runtime);
  types.file = define(module, "FileError", "A file system or operating system failure.", runtime);
  types.internal = define(module, "InternalError", "Kiln's own fault: please report it.", runtime);
  py::register_exception_translator([](std::exception_ptr pending) {
    if (!pending) return;
    try {
      std::rethrow_exception(pending);
    } catch (const py::cast_error& error) {
      set_cast_error(error);
    } catch (const Error&) {
      translate();
    }
  });
}

void set_python_error() noexcept {
  try {
    try {
      throw;
    } catch (py::error_already_set& error) {
      error.restore();
    } catch (const py::cast_error& error) {
      set_cast_error(error);
    } catch (const py::builtin_exception& error) {
      error.set_error();
    } catch (const Error&) {
      translate();
    } catch (const std::bad_alloc&) {
      PyErr_NoMemory();
    } catch (const std::exception& error) {
      PyErr_SetString(PyExc_RuntimeError, error.what());
    }
  } catch (...) {
    PyErr_SetString(PyExc_RuntimeError, "an unknown C++ exception");
  }
}

}  // namespace kiln::python
