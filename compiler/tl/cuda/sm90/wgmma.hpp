#pragma once

#include "compiler/tl/cuda/sm90/shared_memory.hpp"
#include "compiler/tl/number.hpp"

// Matrix products of a warpgroup (PTX: wgmma): d[64, N] (+)= a[64, K] @ b[K, N] K of 32 bytes: b in shared memory, a
// there or in the registers of 128 threads, d in these.

namespace kiln::tl::sm90 {

/// How an operand lies in shared memory, in rows of 128 bytes that the copy engine has swizzled (128-byte swizzle) in
/// groups of 8 rows. k: rows are m (or n), k is contiguous. mn: rows are k, m (or n) is contiguous, in panels of 128
/// bytes; 16-bit types only.
enum class Major { k, mn };

inline constexpr int kSwizzleBytes = 128;
inline constexpr int kSwizzleGroupBytes = 8 * kSwizzleBytes;

/// The descriptor of an operand that starts at `address`: k: of any number of rows; mn: panels `panel_bytes` apart.
/// kRowBytes: of a row and of its swizzle, 128, 64 or 32.
/// (PTX ISA, "Matrix descriptor": start, leading and stride offsets in units of 16 bytes, swizzle mode in the top
/// bits.)
template <int kRowBytes = kSwizzleBytes>
KILN_DEVICE uint64_t operand_descriptor(uint32_t address, int panel_bytes) {
  constexpr uint64_t kMode = kRowBytes == 128 ? 1 : kRowBytes == 64 ? 2 : 3;
  return (kMode << 62) | (uint64_t{8 * kRowBytes / 16} << 32) | (static_cast<uint64_t>(panel_bytes / 16) << 16) |
         ((address & 0x3ffff) >> 4);
}

/// Bytes between the operand's step of one instruction (32 bytes of k) and the next.
template <typename T, Major kMajor>
inline constexpr int kStepBytes = kMajor == Major::k ? 32 : 32 / static_cast<int>(sizeof(T)) * kSwizzleBytes;

/// Registers are written and read by products from here on.
KILN_DEVICE void products_begin() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
KILN_DEVICE void products_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
/// Until at most kGroups of the latest groups are running.
template <int kGroups>
KILN_DEVICE void products_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kGroups) : "memory");
}
/// Keeps the compiler from moving accesses of d across: products run behind its back.
template <int kCount, typename Accumulator>
KILN_DEVICE void keep_registers(Accumulator (&d)[kCount]) {
  KILN_UNROLL for (int i = 0; i < kCount; ++i) {
    if constexpr (is_same<Accumulator, float>)
      asm volatile("" : "+f"(d[i])::"memory");
    else
      asm volatile("" : "+r"(d[i])::"memory");
  }
}

// Assembly names registers by number and takes no arrays: one list for each N.
#define KILN_NAMES_8 "%0, %1, %2, %3"
#define KILN_NAMES_16 "%0, %1, %2, %3, %4, %5, %6, %7"
#define KILN_NAMES_32 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
#define KILN_NAMES_64                                                      \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
  "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define KILN_NAMES_96                                                                \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "           \
  "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, " \
  "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47"
#define KILN_NAMES_128                                                               \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "           \
  "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, " \
  "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
  "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define KILN_NAMES_192                                                               \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "           \
  "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, " \
  "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
  "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, " \
  "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, " \
  "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
#define KILN_NAMES_256                                                                           \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "                       \
  "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "             \
  "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "             \
  "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "             \
  "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "             \
  "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "             \
  "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, " \
  "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
#define KILN_DATA_4(c, i) c(d[i]), c(d[i + 1]), c(d[i + 2]), c(d[i + 3])
#define KILN_DATA_8(c, i) KILN_DATA_4(c, i), KILN_DATA_4(c, i + 4)
#define KILN_DATA_16(c, i) KILN_DATA_8(c, i), KILN_DATA_8(c, i + 8)
#define KILN_DATA_32(c, i) KILN_DATA_16(c, i), KILN_DATA_16(c, i + 16)
#define KILN_DATA_64(c, i) KILN_DATA_32(c, i), KILN_DATA_32(c, i + 32)
#define KILN_DATA_128(c, i) KILN_DATA_64(c, i), KILN_DATA_64(c, i + 64)
#define KILN_DATA_48(c, i) KILN_DATA_32(c, i), KILN_DATA_16(c, i + 32)
#define KILN_DATA_96(c, i) KILN_DATA_64(c, i), KILN_DATA_32(c, i + 64)

// Where a comes from: described in shared memory, or this thread's four registers of it.
#define KILN_DESCRIBED() "l"(a)
#define KILN_LOADED() "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3])

#define KILN_PRODUCT(n, kind, names, outputs, a_name, a_data, b_name, add_name, end, ...)                          \
  asm volatile("{\n .reg .pred add;\n setp.ne.b32 add, " add_name                                                  \
               ", 0;\n"                                                                                            \
               " wgmma.mma_async.sync.aligned.m64n" #n kind " {" names "}, " a_name ", " b_name ", add" end ";\n}" \
               : outputs                                                                                           \
               : a_data(), "l"(b), "r"(static_cast<int>(accumulate))__VA_ARGS__)

// Signs of the operands (1: as they are), and for 16-bit types whether each is mn, where it is in shared memory.
#define KILN_LOADED_HALF_PRODUCT(n, kind, names, data, a_name, b_name, add_name, b_mn)                             \
  KILN_PRODUCT(n, "k16.f32." kind, names, data("+f", 0), a_name, KILN_LOADED, b_name, add_name, ", 1, 1, " b_mn, , \
               "n"(kMajorB == Major::mn))
#define KILN_HALF_PRODUCT(n, kind, names, data, a_name, b_name, add_name, a_mn, b_mn)              \
  KILN_PRODUCT(n, "k16.f32." kind, names, data("+f", 0), a_name, KILN_DESCRIBED, b_name, add_name, \
               ", 1, 1, " a_mn ", " b_mn, , "n"(kMajorA == Major::mn), "n"(kMajorB == Major::mn))
#define KILN_FLOAT_PRODUCT(n, kind, names, data, a_name, a_data, b_name, add_name) \
  KILN_PRODUCT(n, kind, names, data("+f", 0), a_name, a_data, b_name, add_name, ", 1, 1")

#define KILN_K_MAJOR_PRODUCT(n, data, a_name, a_data, b_name, add_name)                                    \
  if constexpr (is_same<A, float>)                                                                         \
    KILN_FLOAT_PRODUCT(n, "k8.f32.tf32.tf32", KILN_NAMES_##n, data, a_name, a_data, b_name, add_name);     \
  else if constexpr (is_same<A, int8_t>)                                                                   \
    KILN_PRODUCT(n, "k32.s32.s8.s8", KILN_NAMES_##n, data("+r", 0), a_name, a_data, b_name, add_name, ""); \
  else if constexpr (is_same<A, float8e4m3> && is_same<B, float8e4m3>)                                     \
    KILN_FLOAT_PRODUCT(n, "k32.f32.e4m3.e4m3", KILN_NAMES_##n, data, a_name, a_data, b_name, add_name);    \
  else if constexpr (is_same<A, float8e4m3>)                                                               \
    KILN_FLOAT_PRODUCT(n, "k32.f32.e4m3.e5m2", KILN_NAMES_##n, data, a_name, a_data, b_name, add_name);    \
  else if constexpr (is_same<B, float8e4m3>)                                                               \
    KILN_FLOAT_PRODUCT(n, "k32.f32.e5m2.e4m3", KILN_NAMES_##n, data, a_name, a_data, b_name, add_name);    \
  else                                                                                                     \
    KILN_FLOAT_PRODUCT(n, "k32.f32.e5m2.e5m2", KILN_NAMES_##n, data, a_name, a_data, b_name, add_name)

#define KILN_PRODUCTS(n, data, a_name, b_name, add_name, a_mn, b_mn)                                                 \
  template <typename A, typename B, Major kMajorA, Major kMajorB, typename Accumulator>                              \
  KILN_DEVICE void product(Accumulator(&d)[n / 2], uint64_t a, uint64_t b, bool accumulate) {                        \
    static_assert(sizeof(A) == 2 || (kMajorA == Major::k && kMajorB == Major::k), "only 16-bit operands may be mn"); \
    if constexpr (is_same<A, bfloat16>)                                                                              \
      KILN_HALF_PRODUCT(n, "bf16.bf16", KILN_NAMES_##n, data, a_name, b_name, add_name, a_mn, b_mn);                 \
    else if constexpr (is_same<A, float16>)                                                                          \
      KILN_HALF_PRODUCT(n, "f16.f16", KILN_NAMES_##n, data, a_name, b_name, add_name, a_mn, b_mn);                   \
    else                                                                                                             \
      KILN_K_MAJOR_PRODUCT(n, data, a_name, KILN_DESCRIBED, b_name, add_name);                                       \
  }
#define KILN_LOADED_PRODUCTS(n, data, a_0, a_1, a_2, a_3, b_name, add_name, b_mn)                                    \
  template <typename A, typename B, Major kMajorA = Major::k, Major kMajorB = Major::k, typename Accumulator>        \
  KILN_DEVICE void product(Accumulator(&d)[n / 2], const uint32_t(&a)[4], uint64_t b, bool accumulate) {             \
    static_assert(kMajorA == Major::k && (sizeof(A) == 2 || kMajorB == Major::k), "only 16-bit operands may be mn"); \
    if constexpr (is_same<A, bfloat16>)                                                                              \
      KILN_LOADED_HALF_PRODUCT(n, "bf16.bf16", KILN_NAMES_##n, data, "{" a_0 ", " a_1 ", " a_2 ", " a_3 "}", b_name, \
                               add_name, b_mn);                                                                      \
    else if constexpr (is_same<A, float16>)                                                                          \
      KILN_LOADED_HALF_PRODUCT(n, "f16.f16", KILN_NAMES_##n, data, "{" a_0 ", " a_1 ", " a_2 ", " a_3 "}", b_name,   \
                               add_name, b_mn);                                                                      \
    else                                                                                                             \
      KILN_K_MAJOR_PRODUCT(n, data, "{" a_0 ", " a_1 ", " a_2 ", " a_3 "}", KILN_LOADED, b_name, add_name);          \
  }

/// d (+)= a @ b for the calling warpgroup: one instruction, issued and not awaited. d[4 * j + 2 * h + e] of thread t of
/// warp w holds row 16 * w + 8 * h + t / 4, column 8 * j + 2 * (t % 4) + e.
KILN_PRODUCTS(8, KILN_DATA_4, "%4", "%5", "%6", "%7", "%8")
KILN_PRODUCTS(16, KILN_DATA_8, "%8", "%9", "%10", "%11", "%12")
KILN_PRODUCTS(32, KILN_DATA_16, "%16", "%17", "%18", "%19", "%20")
KILN_PRODUCTS(64, KILN_DATA_32, "%32", "%33", "%34", "%35", "%36")
KILN_PRODUCTS(96, KILN_DATA_48, "%48", "%49", "%50", "%51", "%52")
KILN_PRODUCTS(128, KILN_DATA_64, "%64", "%65", "%66", "%67", "%68")
KILN_PRODUCTS(192, KILN_DATA_96, "%96", "%97", "%98", "%99", "%100")
KILN_PRODUCTS(256, KILN_DATA_128, "%128", "%129", "%130", "%131", "%132")

/// The same with a in registers (see Fragment), which may change once the product has been waited for.
KILN_LOADED_PRODUCTS(8, KILN_DATA_4, "%4", "%5", "%6", "%7", "%8", "%9", "%10")
KILN_LOADED_PRODUCTS(16, KILN_DATA_8, "%8", "%9", "%10", "%11", "%12", "%13", "%14")
KILN_LOADED_PRODUCTS(32, KILN_DATA_16, "%16", "%17", "%18", "%19", "%20", "%21", "%22")
KILN_LOADED_PRODUCTS(64, KILN_DATA_32, "%32", "%33", "%34", "%35", "%36", "%37", "%38")
KILN_LOADED_PRODUCTS(96, KILN_DATA_48, "%48", "%49", "%50", "%51", "%52", "%53", "%54")
KILN_LOADED_PRODUCTS(128, KILN_DATA_64, "%64", "%65", "%66", "%67", "%68", "%69", "%70")
KILN_LOADED_PRODUCTS(192, KILN_DATA_96, "%96", "%97", "%98", "%99", "%100", "%101", "%102")
KILN_LOADED_PRODUCTS(256, KILN_DATA_128, "%128", "%129", "%130", "%131", "%132", "%133", "%134")

#undef KILN_LOADED_PRODUCTS
#undef KILN_PRODUCTS
#undef KILN_K_MAJOR_PRODUCT
#undef KILN_FLOAT_PRODUCT
#undef KILN_HALF_PRODUCT
#undef KILN_LOADED_HALF_PRODUCT
#undef KILN_PRODUCT
#undef KILN_DESCRIBED
#undef KILN_LOADED
#undef KILN_NAMES_8
#undef KILN_NAMES_16
#undef KILN_NAMES_32
#undef KILN_NAMES_64
#undef KILN_NAMES_96
#undef KILN_NAMES_128
#undef KILN_NAMES_192
#undef KILN_NAMES_256
#undef KILN_DATA_4
#undef KILN_DATA_8
#undef KILN_DATA_16
#undef KILN_DATA_32
#undef KILN_DATA_48
#undef KILN_DATA_64
#undef KILN_DATA_96
#undef KILN_DATA_128

}  // namespace kiln::tl::sm90
