#pragma once

#include <pybind11/pybind11.h>

#include "python/bindings/array.hpp"
#include "python/bindings/dlpack_abi.hpp"

namespace kiln::python {

/// How objects of one Python type become tensors.
struct ArrayType {
  enum class Access {
    none,             ///< not an array
    numpy,            ///< numpy.ndarray and its subclasses
    masked,           ///< numpy.ma: refused, a mask would be lost
    scalar,           ///< NumPy scalars: refused as tensors
    fake,             ///< torch's tensors without data, of tracing: refused
    kiln,             ///< kiln.Tensor
    exchange,         ///< `exchange`
    dlpack,           ///< __dlpack__
    cuda_interface,   ///< __cuda_array_interface__
    array_interface,  ///< __array_interface__ or the buffer protocol, through numpy.asarray
  };
  Access access = Access::none;
  ArrayKind kind = ArrayKind::other;
  const dlpack::ExchangeApi* exchange = nullptr;
  /// torch's descriptor of Tensor.requires_grad, asked for with each call: looking the name up costs more than reading.
  PyObject* requires_grad = nullptr;
  PyObject* is_neg = nullptr;  ///< likewise Tensor.is_neg
};

/// Found once for each type and kept; types seen are never freed. Needs the GIL.
const ArrayType& array_type(PyTypeObject* type);

/// torch's exchange API; null where torch has none or is not imported.
const dlpack::ExchangeApi* torch_exchange_api();

}  // namespace kiln::python
