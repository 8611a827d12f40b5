#pragma once

// What the products of wgmma_half.hpp, wgmma_k_major.hpp and wgmma_k_major_loaded.hpp are written with.

// Assembly names registers by number and takes no arrays: one list for each N, each the one before and more.
#define KILN_WGMMA_NAMES_8 "%0, %1, %2, %3"
#define KILN_WGMMA_NAMES_16 KILN_WGMMA_NAMES_8 ", %4, %5, %6, %7"
#define KILN_WGMMA_NAMES_32 KILN_WGMMA_NAMES_16 ", %8, %9, %10, %11, %12, %13, %14, %15"
#define KILN_WGMMA_NAMES_48 KILN_WGMMA_NAMES_32 ", %16, %17, %18, %19, %20, %21, %22, %23"
#define KILN_WGMMA_NAMES_64 KILN_WGMMA_NAMES_48 ", %24, %25, %26, %27, %28, %29, %30, %31"
#define KILN_WGMMA_NAMES_80 KILN_WGMMA_NAMES_64 ", %32, %33, %34, %35, %36, %37, %38, %39"
#define KILN_WGMMA_NAMES_96 KILN_WGMMA_NAMES_80 ", %40, %41, %42, %43, %44, %45, %46, %47"
#define KILN_WGMMA_NAMES_112 KILN_WGMMA_NAMES_96 ", %48, %49, %50, %51, %52, %53, %54, %55"
#define KILN_WGMMA_NAMES_128 KILN_WGMMA_NAMES_112 ", %56, %57, %58, %59, %60, %61, %62, %63"
#define KILN_WGMMA_NAMES_160 \
  KILN_WGMMA_NAMES_128 ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79"
#define KILN_WGMMA_NAMES_192 \
  KILN_WGMMA_NAMES_160 ", %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
#define KILN_WGMMA_NAMES_224 \
  KILN_WGMMA_NAMES_192 ", %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111"
#define KILN_WGMMA_NAMES_256 \
  KILN_WGMMA_NAMES_224       \
  ", %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
// The registers themselves. Their numbers stand there whole: sums of numbers take the compiler longer to read.
#define KILN_WGMMA_TEN(c, t) \
  c(d[t##0]), c(d[t##1]), c(d[t##2]), c(d[t##3]), c(d[t##4]), c(d[t##5]), c(d[t##6]), c(d[t##7]), c(d[t##8]), c(d[t##9])
#define KILN_WGMMA_TENS_3(c) KILN_WGMMA_TEN(c, ), KILN_WGMMA_TEN(c, 1), KILN_WGMMA_TEN(c, 2)
#define KILN_WGMMA_TENS_6(c) KILN_WGMMA_TENS_3(c), KILN_WGMMA_TEN(c, 3), KILN_WGMMA_TEN(c, 4), KILN_WGMMA_TEN(c, 5)
#define KILN_WGMMA_TENS_9(c) KILN_WGMMA_TENS_6(c), KILN_WGMMA_TEN(c, 6), KILN_WGMMA_TEN(c, 7), KILN_WGMMA_TEN(c, 8)
#define KILN_WGMMA_DATA_4(c) c(d[0]), c(d[1]), c(d[2]), c(d[3])
#define KILN_WGMMA_DATA_8(c) KILN_WGMMA_DATA_4(c), c(d[4]), c(d[5]), c(d[6]), c(d[7])
#define KILN_WGMMA_DATA_16(c) KILN_WGMMA_TEN(c, ), c(d[10]), c(d[11]), c(d[12]), c(d[13]), c(d[14]), c(d[15])
#define KILN_WGMMA_DATA_24(c) KILN_WGMMA_TEN(c, ), KILN_WGMMA_TEN(c, 1), c(d[20]), c(d[21]), c(d[22]), c(d[23])
#define KILN_WGMMA_DATA_32(c) KILN_WGMMA_TENS_3(c), c(d[30]), c(d[31])
#define KILN_WGMMA_DATA_40(c) KILN_WGMMA_TENS_3(c), KILN_WGMMA_TEN(c, 3)
#define KILN_WGMMA_DATA_48(c)                                                                                       \
  KILN_WGMMA_TENS_3(c), KILN_WGMMA_TEN(c, 3), c(d[40]), c(d[41]), c(d[42]), c(d[43]), c(d[44]), c(d[45]), c(d[46]), \
      c(d[47])
#define KILN_WGMMA_DATA_56(c)                                                                                         \
  KILN_WGMMA_TENS_3(c), KILN_WGMMA_TEN(c, 3), KILN_WGMMA_TEN(c, 4), c(d[50]), c(d[51]), c(d[52]), c(d[53]), c(d[54]), \
      c(d[55])
#define KILN_WGMMA_DATA_64(c) KILN_WGMMA_TENS_6(c), c(d[60]), c(d[61]), c(d[62]), c(d[63])
#define KILN_WGMMA_DATA_80(c) KILN_WGMMA_TENS_6(c), KILN_WGMMA_TEN(c, 6), KILN_WGMMA_TEN(c, 7)
#define KILN_WGMMA_DATA_96(c) KILN_WGMMA_TENS_9(c), c(d[90]), c(d[91]), c(d[92]), c(d[93]), c(d[94]), c(d[95])
#define KILN_WGMMA_DATA_112(c) KILN_WGMMA_TENS_9(c), KILN_WGMMA_TEN(c, 9), KILN_WGMMA_TEN(c, 10), c(d[110]), c(d[111])
#define KILN_WGMMA_DATA_128(c)                                                                                    \
  KILN_WGMMA_TENS_9(c), KILN_WGMMA_TEN(c, 9), KILN_WGMMA_TEN(c, 10), KILN_WGMMA_TEN(c, 11), c(d[120]), c(d[121]), \
      c(d[122]), c(d[123]), c(d[124]), c(d[125]), c(d[126]), c(d[127])

// Where a comes from: described in shared memory, or this thread's four registers of it.
#define KILN_WGMMA_DESCRIBED() "l"(a)
#define KILN_WGMMA_LOADED() "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3])

#define KILN_WGMMA_PRODUCT(n, kind, names, outputs, a_name, a_data, b_name, add_name, end, ...)                    \
  asm volatile("{\n .reg .pred add;\n setp.ne.b32 add, " add_name                                                  \
               ", 0;\n"                                                                                            \
               " wgmma.mma_async.sync.aligned.m64n" #n kind " {" names "}, " a_name ", " b_name ", add" end ";\n}" \
               : outputs                                                                                           \
               : a_data(), "l"(b), "r"(static_cast<int>(accumulate))__VA_ARGS__)

// Products of the types that are taken along k alone, by the operands' types A and B.
#define KILN_FLOAT_PRODUCT(n, kind, data, a_name, a_data, b_name, add_name) \
  KILN_WGMMA_PRODUCT(n, kind, KILN_WGMMA_NAMES_##n, data("+f"), a_name, a_data, b_name, add_name, ", 1, 1")
#define KILN_INTEGER_PRODUCT(n, kind, data, a_name, a_data, b_name, add_name) \
  KILN_WGMMA_PRODUCT(n, "k32.s32." kind, KILN_WGMMA_NAMES_##n, data("+r"), a_name, a_data, b_name, add_name, "")
#define KILN_K_MAJOR_PRODUCT(n, data, a_name, a_data, b_name, add_name)                 \
  if constexpr (is_same<A, float>)                                                      \
    KILN_FLOAT_PRODUCT(n, "k8.f32.tf32.tf32", data, a_name, a_data, b_name, add_name);  \
  else if constexpr (is_same<A, int8_t> && is_same<B, int8_t>)                          \
    KILN_INTEGER_PRODUCT(n, "s8.s8", data, a_name, a_data, b_name, add_name);           \
  else if constexpr (is_same<A, int8_t>)                                                \
    KILN_INTEGER_PRODUCT(n, "s8.u8", data, a_name, a_data, b_name, add_name);           \
  else if constexpr (is_same<B, int8_t>)                                                \
    KILN_INTEGER_PRODUCT(n, "u8.s8", data, a_name, a_data, b_name, add_name);           \
  else if constexpr (is_same<A, uint8_t>)                                               \
    KILN_INTEGER_PRODUCT(n, "u8.u8", data, a_name, a_data, b_name, add_name);           \
  else if constexpr (is_same<A, float8e4m3> && is_same<B, float8e4m3>)                  \
    KILN_FLOAT_PRODUCT(n, "k32.f32.e4m3.e4m3", data, a_name, a_data, b_name, add_name); \
  else if constexpr (is_same<A, float8e4m3>)                                            \
    KILN_FLOAT_PRODUCT(n, "k32.f32.e4m3.e5m2", data, a_name, a_data, b_name, add_name); \
  else if constexpr (is_same<B, float8e4m3>)                                            \
    KILN_FLOAT_PRODUCT(n, "k32.f32.e5m2.e4m3", data, a_name, a_data, b_name, add_name); \
  else                                                                                  \
    KILN_FLOAT_PRODUCT(n, "k32.f32.e5m2.e5m2", data, a_name, a_data, b_name, add_name)
