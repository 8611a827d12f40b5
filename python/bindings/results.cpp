#include "python/bindings/results.hpp"

#include <fmt/format.h>

#include <string>

#include "core/dlpack.hpp"
#include "core/errors.hpp"
#include "python/bindings/array_making.hpp"
#include "python/bindings/array_reading.hpp"
#include "python/bindings/gil.hpp"
#include "python/bindings/numpy_array.hpp"
#include "python/bindings/tensor_meta.hpp"
#include "runtime/memory.hpp"
#include "runtime/recording.hpp"

namespace kiln::python {
namespace {

/// Whether the library's own functions have to make the memory.
bool is_made_in_python(ArrayKind kind, Stream stream) {
  return kind == ArrayKind::torch || (kind == ArrayKind::cupy && stream.device.is_cuda());
}

/// NumPy's, torch's and CuPy's spelling.
const char* long_name(DType dtype) {
  static constexpr std::array<const char*, kAllDTypes.size()> kNames = {
      "float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "int64", "int32",
      "int16",   "int8",    "uint64",  "uint32",   "uint16",        "uint8",       "bool"};
  return kNames[static_cast<std::size_t>(dtype)];
}

/// Up to here NumPy's own memory is made faster than Kiln's, which starts at a cache line and needs an owner that NumPy
/// knows of: 0.1 us instead of 0.26.
constexpr std::int64_t kNumpyBytes = 4096;

/// Arrays without elements are not, whose strides NumPy makes 0.
bool is_made_by_numpy(ArrayKind kind, const TensorMeta& meta, Stream stream) {
  if (kind != ArrayKind::numpy || stream.device.is_cuda()) return false;
  const std::int64_t elements = num_elements(meta.shape);
  return elements > 0 && elements <= kNumpyBytes / itemsize_bytes(meta.dtype);
}

PyObject* torch_dtype(DType dtype) {
  static auto* cache = new std::array<PyObject*, kAllDTypes.size()>{};
  PyObject*& cached = (*cache)[static_cast<std::size_t>(dtype)];
  if (cached == nullptr) cached = py::object(py::module_::import("torch").attr(long_name(dtype))).release().ptr();
  return cached;
}

/// prototype.new_empty(shape, dtype=...), on the prototype's device; it costs less than torch.empty.
py::object torch_empty_like(py::handle prototype, const TensorMeta& meta) {
  static PyObject* const method = PyUnicode_InternFromString("new_empty");
  static PyObject* const keywords = py::make_tuple("dtype").release().ptr();
  const py::tuple shape = python::to_python(meta.shape);
  PyObject* arguments[] = {prototype.ptr(), shape.ptr(), torch_dtype(meta.dtype)};
  PyObject* made = PyObject_VectorcallMethod(method, arguments, 2, keywords);
  if (made == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(made);
}

py::object torch_empty(const TensorMeta& meta, Device device) {
  return py::module_::import("torch").attr("empty")(python::to_python(meta.shape),
                                                    py::arg("dtype") = py::handle(torch_dtype(meta.dtype)),
                                                    py::arg("device") = to_string(device));
}

py::object cupy_empty(const TensorMeta& meta, Device device) {
  const py::module_ cupy = py::module_::import("cupy");
  const py::object context = cupy.attr("cuda").attr("Device")(device.index);
  context.attr("__enter__")();
  py::object array;
  try {
    array = cupy.attr("empty")(python::to_python(meta.shape), py::arg("dtype") = long_name(meta.dtype));
  } catch (...) {
    context.attr("__exit__")();
    throw;
  }
  context.attr("__exit__")();
  return array;
}

}  // namespace

Results::Results(const CallArguments& arguments)
    : kind_(arguments.kind()),
      exchange_(arguments.kind() == ArrayKind::torch ? nullptr : arguments.exchange()),
      prototype_(arguments.prototype()),
      stream_(arguments.stream()) {
  const std::shared_ptr<Recording> recording = Recording::of(stream_);
  if (recording == nullptr) return;
  is_recorded_ = true;
  exchange_ = nullptr;
  stream_ = recording->stream();  // branches join it
}

Results::~Results() {
  for (std::size_t i = 0; i < size_; ++i)
    if (exchange_ != nullptr) {
      if (exchanged_[i] != nullptr) exchanged_[i]->deleter(exchanged_[i]);
    } else {
      Py_XDECREF(objects_[i]);
    }
}

const Tensor& Results::allocate(const TensorMeta& meta, Stream stream) {
  if (made_.size() == kMaxTensors) throw_value_error(fmt::format("a call has at most {} tensors", kMaxTensors));
  Tensor& made = made_.emplace_back();
  if (exchange_ != nullptr) {
    allocate_exchanged(meta, stream, made);
  } else if (!is_recorded_ && is_made_by_numpy(kind_, meta, stream)) {
    allocate_by_numpy(meta, made);
  } else if (!is_recorded_ && is_made_in_python(kind_, stream)) {
    allocate_in_python(meta, stream, made);
  } else {
    made = empty(meta.shape, meta.dtype, stream);
    objects_[size_++] = nullptr;
  }
  return made;
}

void Results::allocate_exchanged(const TensorMeta& meta, Stream stream, Tensor& made) {
  Dims shape = meta.shape;
  const DlpackType type = to_dlpack_type(meta.dtype);
  dlpack::Array prototype{.data = nullptr,
                          .device = {stream.device.is_cuda() ? dlpack::kCuda : dlpack::kCpu, stream.device.index},
                          .ndim = shape.size(),
                          .dtype = {type.code, type.bits, type.lanes},
                          .shape = shape.size() == 0 ? nullptr : &shape[0],
                          .strides = nullptr,
                          .byte_offset = 0};
  std::string problem;
  dlpack::ManagedVersioned* managed = nullptr;
  const int status =
      exchange_->allocate(&prototype, &managed, &problem, [](void* context, const char* kind, const char* message) {
        *static_cast<std::string*>(context) = fmt::format("{}: {}", kind, message);
      });
  if (status != 0 || managed == nullptr)
    throw DeviceError("allocation by the array library", 0,
                      fmt::format("{} of shape {}: {}", name(meta.dtype), to_string(meta.shape), problem));
  exchanged_[size_++] = managed;
  made.view_in_place() = dlpack::view_of(managed->array);
}

void Results::allocate_by_numpy(const TensorMeta& meta, Tensor& made) {
  const GilAcquired gil;
  PyObject* const array = numpy_empty(meta.dtype, meta.shape).release().ptr();
  objects_[size_++] = array;
  read_numpy(array, made);
}

void Results::allocate_in_python(const TensorMeta& meta, Stream stream, Tensor& made) {
  const GilAcquired gil;
  const py::object array = kind_ == ArrayKind::cupy ? cupy_empty(meta, stream.device)
                           : prototype_             ? torch_empty_like(prototype_, meta)
                                                    : torch_empty(meta, stream.device);
  Tensor read;
  read_array(array.ptr(), read, stream.handle);
  objects_[size_++] = py::object(array).release().ptr();
  made.view_in_place() = read.view();
}

py::object Results::one_to_python(std::size_t index) {
  if (exchange_ != nullptr) {
    void* object = nullptr;
    const int status = exchange_->to_object(std::exchange(exchanged_[index], nullptr), &object);
    if (status != 0) throw py::error_already_set();
    return py::reinterpret_steal<py::object>(static_cast<PyObject*>(object));
  }
  if (objects_[index] != nullptr) return py::reinterpret_steal<py::object>(std::exchange(objects_[index], nullptr));
  return python::to_python(made_[index], kind_, stream_);
}

py::object Results::to_python() {
  if (made_.size() == 1) return one_to_python(0);
  py::tuple tuple(made_.size());
  for (std::size_t i = 0; i < made_.size(); ++i) tuple[i] = one_to_python(i);
  return tuple;
}

}  // namespace kiln::python
