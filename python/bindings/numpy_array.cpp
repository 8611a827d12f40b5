#include "python/bindings/numpy_array.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <optional>
#include <string>
#include <unordered_map>

#include "core/errors.hpp"

namespace kiln::python {
namespace {

// By NumPy's type number, up to float64; half is 23.
constexpr std::array<std::optional<DType>, 13> kByTypeNumber = {DType::bool_,
                                                                DType::i8,
                                                                DType::u8,
                                                                DType::i16,
                                                                DType::u16,
                                                                DType::i32,
                                                                DType::u32,
                                                                sizeof(long) == 8 ? DType::i64 : DType::i32,
                                                                sizeof(long) == 8 ? DType::u64 : DType::u32,
                                                                DType::i64,
                                                                DType::u64,
                                                                DType::f32,
                                                                DType::f64};
constexpr int kHalf = 23;
constexpr int kWriteable = 0x0400;  // of an array's flags
/// Types that extensions add to NumPy (ml_dtypes) have numbers from here on.
constexpr int kFirstUserType = 256;

std::optional<DType> user_dtype(py::handle descriptor, int type_number) {
  static auto* known = new std::unordered_map<int, std::optional<DType>>;
  const auto found = known->find(type_number);
  if (found != known->end()) return found->second;
  const std::string name = py::str(descriptor.attr("name")).cast<std::string>();
  std::optional<DType> dtype;
  if (name == "bfloat16") dtype = DType::bf16;
  if (name == "float8_e4m3fn") dtype = DType::fp8e4m3;
  if (name == "float8_e5m2") dtype = DType::fp8e5m2;
  known->emplace(type_number, dtype);
  return dtype;
}

[[noreturn]] void refuse_dtype(py::handle descriptor) {
  const std::string text = py::str(descriptor).cast<std::string>();
  const auto* proxy = reinterpret_cast<const py::detail::PyArrayDescr_Proxy*>(descriptor.ptr());
  std::string reason = "Kiln has bool, integers of 8 to 64 bits, f16, f32, f64, bf16, fp8e4m3 and fp8e5m2";
  if (proxy->byteorder == '>')
    reason = "its bytes are in the other machine's order; array.astype(array.dtype.newbyteorder('=')) turns them";
  else if (proxy->kind == 'O')
    reason = "it holds Python objects; numpy.asarray(..., dtype=numpy.float32) makes numbers of them";
  else if (proxy->kind == 'V')
    reason = "structured and raw elements are no numbers; pass one field, or a view with a number's dtype";
  else if (proxy->kind == 'c')
    reason = "complex numbers are not supported; pass real and imaginary part as arrays of their own";
  else if (proxy->kind == 'M' || proxy->kind == 'm')
    reason = "array.view(numpy.int64) passes times as integers";
  throw_type_error(fmt::format("dtype {} is none of Kiln's: {}", text, reason));
}

[[noreturn]] void refuse_stride(int axis, std::int64_t stride_bytes, std::int64_t itemsize) {
  throw_value_error(fmt::format(
      "stride {} of dimension {} is {} bytes, no multiple of the {} bytes of an element; numpy.ascontiguousarray makes "
      "a dense copy",
      axis, axis, stride_bytes, itemsize));
}

}  // namespace

DType from_numpy_dtype(py::handle dtype) {
  const auto* proxy = reinterpret_cast<const py::detail::PyArrayDescr_Proxy*>(dtype.ptr());
  const int number = proxy->type_num;
  if (proxy->byteorder != '>') {
    if (number >= 0 && number < static_cast<int>(kByTypeNumber.size()))
      return *kByTypeNumber[static_cast<std::size_t>(number)];
    if (number == kHalf) return DType::f16;
    if (number >= kFirstUserType)
      if (const std::optional<DType> found = user_dtype(dtype, number)) return *found;
  }
  refuse_dtype(dtype);
}

ArraySource read_numpy(PyObject* object, Tensor& tensor) {
  const auto* array = py::detail::array_proxy(object);
  const int rank = array->nd;
  if (rank > kMaxRank) throw_value_error(fmt::format("it has {} dimensions; Kiln takes 0 to {}", rank, kMaxRank));
  TensorView& view = tensor.view_in_place();
  view.data = array->data;
  view.dtype = from_numpy_dtype(array->descr);
  bool is_empty = false;
  for (int axis = 0; axis < rank; ++axis) {
    view.shape.push_back(array->dimensions[axis]);
    is_empty |= array->dimensions[axis] == 0;
  }
  // Elements have 1, 2, 4 or 8 bytes; a division for each stride would cost as much as the rest of the reading.
  const std::int64_t itemsize = itemsize_bytes(view.dtype);
  const auto within_element = static_cast<std::uint64_t>(itemsize - 1);
  const int shift = std::countr_zero(static_cast<std::uint64_t>(itemsize));
  for (int axis = 0; axis < rank; ++axis) {
    const std::int64_t stride_bytes = array->strides[axis];
    const bool is_whole = (static_cast<std::uint64_t>(stride_bytes) & within_element) == 0;
    if (!is_whole && array->dimensions[axis] > 1 && !is_empty) refuse_stride(axis, stride_bytes, itemsize);
    view.strides.push_back(is_whole ? stride_bytes >> shift : 1);
  }
  if (!is_empty && (reinterpret_cast<std::uintptr_t>(view.data) & within_element) != 0)
    throw_value_error("its data is not aligned to the size of an element; array.copy() makes one that is");
  return {ArrayKind::numpy, (array->flags & kWriteable) == 0};
}

py::dtype to_numpy_dtype(DType dtype) {
  static auto* cache = new std::array<PyObject*, kAllDTypes.size()>{};
  PyObject*& cached = (*cache)[static_cast<std::size_t>(dtype)];
  if (cached == nullptr) {
    static constexpr std::array<const char*, kAllDTypes.size()> kNames = {
        "float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "int64", "int32",
        "int16",   "int8",    "uint64",  "uint32",   "uint16",        "uint8",       "bool"};
    const char* numpy_name = kNames[static_cast<std::size_t>(dtype)];
    if (is_floating(dtype) && (dtype == DType::bf16 || is_fp8(dtype))) {
      py::object ml_dtypes;
      try {
        ml_dtypes = py::module_::import("ml_dtypes");
      } catch (py::error_already_set& error) {
        if (!error.matches(PyExc_ImportError)) throw;
        throw_not_implemented(fmt::format(
            "NumPy itself has no {}: pip install ml_dtypes, or use an array library that has it", name(dtype)));
      }
      cached = py::module_::import("numpy").attr("dtype")(ml_dtypes.attr(numpy_name)).release().ptr();
    } else {
      cached = py::dtype(std::string(numpy_name)).release().ptr();
    }
  }
  return py::reinterpret_borrow<py::dtype>(cached);
}

py::object to_numpy(const Tensor& tensor) {
  const TensorView& view = tensor.view();
  std::array<Py_ssize_t, kMaxRank> shape{}, strides{};
  for (int axis = 0; axis < view.ndim(); ++axis) {
    shape[static_cast<std::size_t>(axis)] = view.shape[axis];
    strides[static_cast<std::size_t>(axis)] = view.strides[axis] * itemsize_bytes(view.dtype);
  }
  auto& api = py::detail::npy_api::get();
  void* data = view.data;
  static std::int64_t nothing = 0;
  if (data == nullptr) data = &nothing;  // an array without elements; NumPy would allocate one of its own
  auto owner = std::make_unique<Tensor>(tensor);
  py::capsule base(owner.get(), [](void* owned) { delete static_cast<Tensor*>(owned); });
  owner.release();
  auto array = py::reinterpret_steal<py::object>(
      api.PyArray_NewFromDescr_(api.PyArray_Type_, to_numpy_dtype(view.dtype).release().ptr(), view.ndim(),
                                shape.data(), strides.data(), data, kWriteable, nullptr));
  if (!array) throw py::error_already_set();
  if (api.PyArray_SetBaseObject_(array.ptr(), base.release().ptr()) != 0) throw py::error_already_set();
  return array;
}

py::object numpy_empty(DType dtype, const Dims& shape) {
  std::array<Py_ssize_t, kMaxRank> extents{};
  std::copy(shape.begin(), shape.end(), extents.begin());
  auto& api = py::detail::npy_api::get();
  auto array = py::reinterpret_steal<py::object>(
      api.PyArray_NewFromDescr_(api.PyArray_Type_, to_numpy_dtype(dtype).release().ptr(), shape.size(), extents.data(),
                                nullptr, nullptr, 0, nullptr));
  if (!array) throw py::error_already_set();
  return array;
}

}  // namespace kiln::python
