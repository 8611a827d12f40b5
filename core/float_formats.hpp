// The one implementation of the narrow float formats. Host code includes it, and so do kernels on both targets, where
// no other header exists: hence no #include, plain integer types and only constexpr code.
#pragma once

#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
#define KILN_FORMATS_INLINE __host__ __device__ __forceinline__ constexpr
#else
#define KILN_FORMATS_INLINE [[gnu::always_inline]] inline constexpr
#endif

namespace kiln::formats {

// Every function computes all of its cases and selects, so that loops over them vectorise. Narrowing rounds to nearest,
// ties to even. The subnormal case lets the f32 adder round: adding a power of two whose unit in the last place is the
// narrow format's smallest step leaves the rounded count of steps in the low bits. That beats variable shifts, which
// vectorise badly, and it survives flush-to-zero, since no f32 subnormal matters to it.

/// Bits of f16 (1 sign, 5 exponent, 10 mantissa) to f32, exactly. NaN payloads are kept.
KILN_FORMATS_INLINE float f16_to_f32(unsigned short bits) {
  const unsigned int sign = (bits & 0x8000u) << 16;
  const unsigned int magnitude = (bits & 0x7fffu) << 13;
  const unsigned int rebased = magnitude + (112u << 23);
  const float subnormal = __builtin_bit_cast(float, magnitude + (113u << 23)) - __builtin_bit_cast(float, 113u << 23);
  const unsigned int finite = magnitude < (1u << 23) ? __builtin_bit_cast(unsigned int, subnormal) : rebased;
  const unsigned int result = magnitude >= (31u << 23) ? rebased + (112u << 23) : finite;
  return __builtin_bit_cast(float, result | sign);
}

/// f32 to bits of f16. Overflow gives infinity from 65520 on; NaNs become quiet and keep sign and upper payload.
KILN_FORMATS_INLINE unsigned short f32_to_f16(float value) {
  const unsigned int bits = __builtin_bit_cast(unsigned int, value);
  const unsigned int sign = (bits >> 16) & 0x8000u;
  const unsigned int magnitude = bits & 0x7fffffffu;
  // 2^16 already rounds to infinity; clamping there keeps infinity and everything above it on the normal path.
  const unsigned int clamped = magnitude < 0x47800000u ? magnitude : 0x47800000u;
  const unsigned int normal = (clamped - (112u << 23) + 0xfffu + ((clamped >> 13) & 1u)) >> 13;
  const unsigned int subnormal =
      __builtin_bit_cast(unsigned int, __builtin_bit_cast(float, clamped) + 0.5f) - 0x3f000000u;
  const unsigned int number = clamped < 0x38800000u ? subnormal : normal;
  const unsigned int nan = 0x7e00u | ((magnitude >> 13) & 0x3ffu);
  return static_cast<unsigned short>((magnitude > 0x7f800000u ? nan : number) | sign);
}

/// Bits of bf16 (1 sign, 8 exponent, 7 mantissa) to f32, exactly. NaN payloads are kept.
KILN_FORMATS_INLINE float bf16_to_f32(unsigned short bits) {
  return __builtin_bit_cast(float, static_cast<unsigned int>(bits) << 16);
}

/// f32 to bits of bf16. Overflow gives infinity; NaNs become quiet and keep sign and upper payload.
KILN_FORMATS_INLINE unsigned short f32_to_bf16(float value) {
  const unsigned int bits = __builtin_bit_cast(unsigned int, value);
  const unsigned int number = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  const unsigned int nan = (bits >> 16) | 0x40u;
  return static_cast<unsigned short>((bits & 0x7fffffffu) > 0x7f800000u ? nan : number);
}

/// Bits of fp8 e4m3fn (1 sign, 4 exponent, 3 mantissa; no infinity, NaN is 0x7f and 0xff, largest 448) to f32, exactly.
KILN_FORMATS_INLINE float fp8e4m3_to_f32(unsigned char bits) {
  const unsigned int sign = (bits & 0x80u) << 24;
  const unsigned int magnitude = (bits & 0x7fu) << 20;
  const float subnormal = __builtin_bit_cast(float, magnitude + (121u << 23)) - __builtin_bit_cast(float, 121u << 23);
  const unsigned int finite =
      magnitude < (1u << 23) ? __builtin_bit_cast(unsigned int, subnormal) : magnitude + (120u << 23);
  const unsigned int result = magnitude == (0x7fu << 20) ? 0x7fc00000u : finite;
  return __builtin_bit_cast(float, result | sign);
}

/// f32 to bits of fp8 e4m3fn. Whatever rounds above 448, infinity included, gives NaN, as torch.float8_e4m3fn does;
/// nothing saturates.
KILN_FORMATS_INLINE unsigned char f32_to_fp8e4m3(float value) {
  const unsigned int bits = __builtin_bit_cast(unsigned int, value);
  const unsigned int sign = (bits >> 24) & 0x80u;
  const unsigned int magnitude = bits & 0x7fffffffu;
  // 480 would be 0x7f, which is NaN: the clamp serves overflow, infinity and NaN at once.
  const unsigned int clamped = magnitude < 0x43f00000u ? magnitude : 0x43f00000u;
  const unsigned int normal = (clamped - (120u << 23) + 0x7ffffu + ((clamped >> 20) & 1u)) >> 20;
  const unsigned int subnormal =
      __builtin_bit_cast(unsigned int, __builtin_bit_cast(float, clamped) + 16384.0f) - 0x46800000u;
  return static_cast<unsigned char>((clamped < 0x3c800000u ? subnormal : normal) | sign);
}

/// Bits of fp8 e5m2 (1 sign, 5 exponent, 2 mantissa; infinity and NaN as in f16, largest 57344) to f32, exactly.
KILN_FORMATS_INLINE float fp8e5m2_to_f32(unsigned char bits) {
  return f16_to_f32(static_cast<unsigned short>(bits << 8));  // the upper byte of f16, exactly
}

/// f32 to bits of fp8 e5m2. Overflow gives infinity from 61440 on; every NaN becomes 0x7f or 0xff.
KILN_FORMATS_INLINE unsigned char f32_to_fp8e5m2(float value) {
  // Not by way of f16: rounding twice is wrong near ties.
  const unsigned int bits = __builtin_bit_cast(unsigned int, value);
  const unsigned int sign = (bits >> 24) & 0x80u;
  const unsigned int magnitude = bits & 0x7fffffffu;
  const unsigned int clamped = magnitude < 0x47800000u ? magnitude : 0x47800000u;
  const unsigned int normal = (clamped - (112u << 23) + 0xfffffu + ((clamped >> 21) & 1u)) >> 21;
  const unsigned int subnormal =
      __builtin_bit_cast(unsigned int, __builtin_bit_cast(float, clamped) + 128.0f) - 0x43000000u;
  const unsigned int number = clamped < 0x38800000u ? subnormal : normal;
  return static_cast<unsigned char>((magnitude > 0x7f800000u ? 0x7fu : number) | sign);
}

}  // namespace kiln::formats
