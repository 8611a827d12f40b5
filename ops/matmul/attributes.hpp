#pragma once

#include "ops/op_spec.hpp"

namespace kiln::matmul {

// Attributes that ops of the family share; problem.hpp says what they accept.

inline AttributeSpec out_dtype_attribute() {
  return {"out_dtype", {}, false, "None: the operands' dtype for floats of 16 bits and more, bf16 for fp8, i32 for i8"};
}
inline AttributeSpec precision_attribute() {
  return {"precision", std::string("ieee"), false, "'tf32' lets the GPU round f32 operands to 10 bits of mantissa"};
}
inline AttributeSpec num_sms_attribute() {
  return {"num_sms", std::int64_t{0}, false,
          "most GPU multiprocessors to use, to leave some to other streams; 0, or more than there are: all"};
}

}  // namespace kiln::matmul
