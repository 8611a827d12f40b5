#include "ops/scan/scan_call.hpp"

#include <fmt/format.h>

#include "core/errors.hpp"
#include "ops/common/attribute_reader.hpp"

namespace kiln::scan {

const std::vector<OpRow>& op_table() {
  // Never destroyed: threads may still dispatch while the process exits.
  static const std::vector<OpRow>& rows = *new std::vector<OpRow>{
      {"cumsum",
       "out[i] = x[0] + ... + x[i] along dim; integers and bool give i64 and wrap, narrow floats accumulate in f32",
       "CumulativeSum", 0},
      {"cumprod",
       "out[i] = x[0] * ... * x[i] along dim; integers and bool give i64 and wrap, narrow floats accumulate in f32",
       "CumulativeProduct", 1},
  };
  return rows;
}

ScanCall resolve(const OpRow& row, const TensorView& input, const Attributes& attributes) {
  ScanCall call;
  call.axis = axis_of(row.name, "dim", *attributes.find("dim"), input.ndim());
  call.out = dtype_of(row.name, "dtype", *attributes.find("dtype"))
                 .value_or(is_floating(input.dtype) ? input.dtype : DType::i64);
  if (call.out == DType::bool_)
    throw_type_error(
        fmt::format("op '{}': attribute 'dtype' is bool, which holds no sums or products; expected a float or an "
                    "integer dtype",
                    row.name));
  // Integers that wrap at 32 bits are right in every narrower width.
  call.accumulator = is_floating(call.out)           ? compute_dtype(call.out)
                     : itemsize_bytes(call.out) == 8 ? DType::i64
                                                     : DType::i32;
  return call;
}

}  // namespace kiln::scan
