#include "ops/common/tolerance.hpp"

namespace kiln {

Tolerance rounded_to(DType out, Tolerance computed) {
  switch (out) {
    case DType::f16:
      return {computed.relative + 0x1p-10, computed.absolute + 0x1p-24};
    case DType::bf16:
      return {computed.relative + 0x1p-7, computed.absolute};
    case DType::fp8e4m3:
      return {computed.relative + 0x1p-3, computed.absolute + 0x1p-9};
    case DType::fp8e5m2:
      return {computed.relative + 0x1p-2, computed.absolute + 0x1p-16};
    default:
      return computed;
  }
}

}  // namespace kiln
