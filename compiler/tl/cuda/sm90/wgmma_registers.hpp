#pragma once

// What the products of wgmma_half.hpp and wgmma_k_major.hpp are written with.

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
#define KILN_WGMMA_DATA_4(c, i) c(d[i]), c(d[i + 1]), c(d[i + 2]), c(d[i + 3])
#define KILN_WGMMA_DATA_8(c, i) KILN_WGMMA_DATA_4(c, i), KILN_WGMMA_DATA_4(c, i + 4)
#define KILN_WGMMA_DATA_16(c, i) KILN_WGMMA_DATA_8(c, i), KILN_WGMMA_DATA_8(c, i + 8)
#define KILN_WGMMA_DATA_32(c, i) KILN_WGMMA_DATA_16(c, i), KILN_WGMMA_DATA_16(c, i + 16)
#define KILN_WGMMA_DATA_64(c, i) KILN_WGMMA_DATA_32(c, i), KILN_WGMMA_DATA_32(c, i + 32)
#define KILN_WGMMA_DATA_128(c, i) KILN_WGMMA_DATA_64(c, i), KILN_WGMMA_DATA_64(c, i + 64)
#define KILN_WGMMA_DATA_24(c, i) KILN_WGMMA_DATA_16(c, i), KILN_WGMMA_DATA_8(c, i + 16)
#define KILN_WGMMA_DATA_40(c, i) KILN_WGMMA_DATA_32(c, i), KILN_WGMMA_DATA_8(c, i + 32)
#define KILN_WGMMA_DATA_48(c, i) KILN_WGMMA_DATA_32(c, i), KILN_WGMMA_DATA_16(c, i + 32)
#define KILN_WGMMA_DATA_56(c, i) KILN_WGMMA_DATA_48(c, i), KILN_WGMMA_DATA_8(c, i + 48)
#define KILN_WGMMA_DATA_80(c, i) KILN_WGMMA_DATA_64(c, i), KILN_WGMMA_DATA_16(c, i + 64)
#define KILN_WGMMA_DATA_96(c, i) KILN_WGMMA_DATA_64(c, i), KILN_WGMMA_DATA_32(c, i + 64)
#define KILN_WGMMA_DATA_112(c, i) KILN_WGMMA_DATA_96(c, i), KILN_WGMMA_DATA_16(c, i + 96)

// Where a comes from: described in shared memory, or this thread's four registers of it.
#define KILN_WGMMA_DESCRIBED() "l"(a)
#define KILN_WGMMA_LOADED() "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3])

#define KILN_WGMMA_PRODUCT(n, kind, names, outputs, a_name, a_data, b_name, add_name, end, ...)                    \
  asm volatile("{\n .reg .pred add;\n setp.ne.b32 add, " add_name                                                  \
               ", 0;\n"                                                                                            \
               " wgmma.mma_async.sync.aligned.m64n" #n kind " {" names "}, " a_name ", " b_name ", add" end ";\n}" \
               : outputs                                                                                           \
               : a_data(), "l"(b), "r"(static_cast<int>(accumulate))__VA_ARGS__)
