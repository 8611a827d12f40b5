#pragma once

#include "compiler/tl/target.hpp"
#include "core/float_formats.hpp"

namespace kiln::tl::narrow_float {

// _Float16 conversions become F16C or AVX-512 vector instructions; the bfloat16 ones are shifts and adds that vectorise
// as they stand.

KILN_DEVICE float f16_to_f32(uint16_t bits) {
  return static_cast<float>(__builtin_bit_cast(_Float16, bits));
}
KILN_DEVICE uint16_t f32_to_f16(float value) {
  return __builtin_bit_cast(uint16_t, static_cast<_Float16>(value));
}
using formats::bf16_to_f32;
using formats::f32_to_bf16;
using formats::f32_to_fp8e4m3;
using formats::f32_to_fp8e5m2;
using formats::fp8e4m3_to_f32;
using formats::fp8e5m2_to_f32;

}  // namespace kiln::tl::narrow_float
