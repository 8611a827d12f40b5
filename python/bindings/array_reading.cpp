#include "python/bindings/array_reading.hpp"

#include <fmt/format.h>

#include <string>

#include "core/errors.hpp"
#include "python/bindings/array_type.hpp"
#include "python/bindings/cuda_interface.hpp"
#include "python/bindings/dlpack_abi.hpp"
#include "python/bindings/dlpack_array.hpp"
#include "python/bindings/gil.hpp"
#include "python/bindings/numpy_array.hpp"
#include "python/bindings/tensor_object.hpp"

namespace kiln::python {
namespace {

constexpr const char* kNoMemory =
    "it has no memory: fake and meta tensors hold no data (torch.compile takes kiln.torch's ops)";

/// A torch tensor that autograd watches would lose its gradient in the call.
void check_autograd(PyObject* object, const ArrayType& type) {
  PyObject* descriptor = type.requires_grad;
  PyObject* flag =
      descriptor != nullptr
          ? Py_TYPE(descriptor)->tp_descr_get(descriptor, object, reinterpret_cast<PyObject*>(Py_TYPE(object)))
          : PyObject_GetAttrString(object, "requires_grad");
  if (flag == nullptr) throw py::error_already_set();
  Py_DECREF(flag);  // a boolean stays
  if (flag == Py_False) return;
  if (py::module_::import("torch").attr("is_grad_enabled")().cast<bool>())
    throw_type_error(
        "it requires grad, and Kiln's ops have no backward: pass tensor.detach(), or call under torch.no_grad()");
}

/// torch keeps the sign of x.conj().imag, and of any view of it, as a flag of the tensor, which DLPack does not tell.
void check_sign(PyObject* object, const ArrayType& type) {
  const auto flag = py::reinterpret_steal<py::object>(PyObject_Vectorcall(type.is_neg, &object, 1, nullptr));
  if (!flag) throw py::error_already_set();
  if (flag.ptr() == Py_True)
    throw_value_error("its sign is a flag and not in its memory (torch's is_neg()); pass tensor.resolve_neg()");
}

ArraySource read_exchange(PyObject* object, const ArrayType& type, Tensor& tensor) {
  if (type.kind == ArrayKind::torch) check_autograd(object, type);
  dlpack::Array array;
  if (type.exchange->borrow(object, &array) != 0) throw py::error_already_set();
  TensorView& view = tensor.view_in_place();
  view = dlpack::view_of(array);
  if (view.data == nullptr && view.numel() > 0) throw_type_error(kNoMemory);
  if (type.kind == ArrayKind::torch) check_sign(object, type);
  return {type.kind, false};
}

ArraySource read_through_numpy(PyObject* object, Tensor& tensor) {
  py::object array = py::module_::import("numpy").attr("asarray")(py::handle(object));
  const ArraySource source = read_numpy(array.ptr(), tensor);
  tensor = Tensor(tensor.view(), share(std::move(array)));
  return source;
}

[[noreturn]] void refuse(PyObject* object) {
  const std::string type = Py_TYPE(object)->tp_name;
  std::string advice = "; give an array: NumPy, torch, CuPy, JAX, or anything with __dlpack__";
  if (PyList_Check(object) || PyTuple_Check(object))
    advice = "; numpy.asarray(...) makes an array of it";
  else if (PyBool_Check(object) || PyLong_Check(object) || PyFloat_Check(object))
    advice = "; numpy.asarray(...) makes a tensor without dimensions of it";
  else if (py::hasattr(object, "__array__"))
    advice = "; numpy.asarray(...) makes an array of it, or its .to_numpy()";
  throw_type_error(fmt::format("expected an array, got {}{}", type, advice));
}

/// What an array's library says goes out as Kiln's error, with the argument's name before it.
[[noreturn]] void rethrow_named(std::string_view argument_name) {
  const std::string prefix = argument_name.empty() ? std::string() : fmt::format("{}: ", argument_name);
  try {
    throw;
  } catch (const UsageError& error) {
    throw UsageError(error.kind(), prefix + error.what());
  } catch (py::error_already_set& error) {
    const bool is_type =
        error.matches(PyExc_BufferError) || error.matches(PyExc_TypeError) || error.matches(PyExc_AttributeError);
    if (!is_type && !error.matches(PyExc_ValueError) && !error.matches(PyExc_RuntimeError)) throw;
    std::string text = py::str(error.value()).cast<std::string>();
    text = text.substr(0, text.find("\nException raised from"));  // torch adds its C++ stack
    throw UsageError(is_type ? UsageError::Kind::type : UsageError::Kind::value,
                     fmt::format("{}its library gives no access to it: {}", prefix, text));
  }
}

}  // namespace

ArraySource read_array(PyObject* object, Tensor& tensor, std::optional<void*> stream) {
  const ArrayType& type = array_type(Py_TYPE(object));
  switch (type.access) {
    case ArrayType::Access::numpy:
      return read_numpy(object, tensor);
    case ArrayType::Access::exchange:
      return read_exchange(object, type, tensor);
    case ArrayType::Access::kiln: {
      const auto& held = *py::cast<const TensorObject*>(py::handle(object));
      tensor.view_in_place() = held.tensor.view();
      return {ArrayKind::kiln, false};
    }
    case ArrayType::Access::dlpack:
      if (type.kind == ArrayKind::torch) {
        check_autograd(object, type);
        check_sign(object, type);
      }
      return read_dlpack(object, type.kind, stream, tensor);
    case ArrayType::Access::cuda_interface:
      return read_cuda_interface(object, type.kind, tensor);
    case ArrayType::Access::array_interface:
      return read_through_numpy(object, tensor);
    case ArrayType::Access::fake:
      throw_type_error(kNoMemory);
    case ArrayType::Access::masked:
      throw_type_error("it is a masked array, whose mask would be lost; pass array.filled(...) or array.data");
    case ArrayType::Access::none:
      // Objects that wrap an address have the interface as an attribute of their own, not of their type.
      if (py::hasattr(object, "__cuda_array_interface__")) return read_cuda_interface(object, type.kind, tensor);
      refuse(object);
    case ArrayType::Access::scalar:
      break;
  }
  refuse(object);
}

ArrayArgument array_argument(py::handle object, std::string_view argument_name) {
  ArrayArgument argument;
  if (object.is_none()) return argument;
  try {
    static_cast<ArraySource&>(argument) = read_array(object.ptr(), argument.tensor, std::nullopt);
  } catch (...) {
    rethrow_named(argument_name);
  }
  return argument;
}

void name_array_error(std::string_view argument_name) {
  rethrow_named(argument_name);
}

}  // namespace kiln::python
