#pragma once

#include <cstdint>
#include <optional>

#include "ops/matmul/call.hpp"

namespace kiln::matmul {

/// An operand as the copy engine reads it: rows of one dense dimension, `pitch` elements apart.
struct Sm90Operand {
  int tensor = -1;
  DType dtype = DType::bf16;
  std::int64_t extent = 0;  ///< m or n
  bool is_mn = false;       ///< whether the dense dimension is m or n; else it is k
  std::int64_t pitch = 0;
  std::int64_t batch_stride = 0;  ///< 0: one matrix for all
  /// Where it is copied to first, because the copy engine cannot read the tensor: a workspace of the plan, which the
  /// fields above then describe, while these are the tensor's own strides. -1: it is read as it lies.
  int workspace = -1;
  std::int64_t mn_stride = 0, k_stride = 0, tensor_batch_stride = 0;
};

/// Kernels that differ in the tiles that fit: an addend for each element takes registers, and a narrow product has at
/// most kMostNarrowExtent rows or columns.
enum class Sm90Form : std::uint8_t { wide, with_addend, narrow };
inline constexpr Sm90Form kSm90Forms[] = {Sm90Form::wide, Sm90Form::with_addend, Sm90Form::narrow};

/// At most so many rows or columns of the output make a narrow product.
inline constexpr std::int64_t kMostNarrowExtent = 32;

/// One call as kernel_sm90.cuh takes it: product (m x n) = a (m x k) @ b (k x n). Where the output has few rows, or b
/// of other than 16-bit elements is dense along n, the operands have changed places, and the product is stored
/// transposed.
struct Sm90Call {
  Sm90Form form = Sm90Form::wide;
  std::int64_t m = 0, n = 0, k = 0, batches = 1;
  Sm90Operand a, b;
  bool transposed = false;
  bool adds_row = false;                                     ///< see kRowAddend
  bool out_is_mapped = false;                                ///< whether the copy engine can write the output
  std::int64_t out_strides[3] = {}, addend_strides[3] = {};  ///< of the product's rows and columns, and of batches
};

/// How the copy engine can read a matrix that starts at a multiple of 16 bytes.
struct Sm90Rows {
  bool is_mn = false;      ///< whether the dense dimension is m or n; else it is k
  std::int64_t pitch = 0;  ///< elements between one row of it and the next
};
/// Of extents `extent` (m or n) and k; nothing where rows are not dense, or do not start at multiples of 16 bytes.
std::optional<Sm90Rows> sm90_rows(DType dtype, std::int64_t extent, std::int64_t k, std::int64_t mn_stride,
                                  std::int64_t k_stride);
/// The pitch, in elements, of `elements` that are copied to rows of their own: whole lines of the cache.
std::int64_t packed_pitch(DType dtype, std::int64_t elements);

/// The same product as out^T = b^T @ a^T.
Sm90Call exchanged(Sm90Call call);

/// Bytes of the workspace of an operand that is copied.
std::int64_t packed_bytes(const Sm90Operand& operand, const Sm90Call& call);

/// Whether the kernel exists on `target`.
bool has_sm90_kernel(const Target& target);

/// The call, if a form of the kernel can serve it where there is one: operands of 16 bits, fp8, i8 or tf32, each
/// dense along k, m or n (but along k one of two that are not of 16 bits, the smaller one where the product is narrow),
/// in steps of 16 bytes. Operands that are not so are copied first.
std::optional<Sm90Call> sm90_call(const MatmulCall& call, const OpCall& tensors);

}  // namespace kiln::matmul
