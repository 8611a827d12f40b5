#include "ops/matmul/call_sm90.hpp"

#include <algorithm>
#include <utility>

#include "core/tensor_map.hpp"
#include "ops/common/grid.hpp"
#include "ops/matmul/iteration.hpp"

namespace kiln::matmul {
namespace {

/// Extents and coordinates are 32-bit numbers in the kernel, with room for a tile beyond the end.
constexpr std::int64_t kMostExtent = std::int64_t{1} << 30;
/// Rows of a copied operand start at whole lines of the cache.
constexpr std::int64_t kPackedRowBytes = 128;

const TensorView& view_of(const OpCall& call, int tensor) {
  const auto index = static_cast<std::size_t>(tensor);
  return index < call.outputs.size() ? call.outputs[index] : call.inputs[index - call.outputs.size()];
}

std::int64_t batch_stride_of(const Matrix& matrix) {
  return matrix.batch_strides.empty() ? 0 : matrix.batch_strides[0];
}

bool is_whole(std::int64_t stride, DType dtype) {
  return stride >= 0 && stride * itemsize_bytes(dtype) % kTensorMapAlignmentBytes == 0;
}

/// One operand of `call`: of extents m or n, and k.
struct Source {
  const Matrix& matrix;
  std::int64_t extent, k, mn_stride, k_stride;
};

/// The operand as it lies, if the copy engine can read it so.
std::optional<Sm90Operand> in_place(const Source& source, const OpCall& call, bool may_be_mn) {
  const DType dtype = source.matrix.dtype;
  Sm90Operand operand;
  operand.tensor = source.matrix.tensor;
  operand.dtype = dtype;
  operand.extent = source.extent;
  operand.batch_stride = batch_stride_of(source.matrix);
  if (!takes_tensor_map(view_of(call, operand.tensor).data) || !is_whole(operand.batch_stride, dtype))
    return std::nullopt;
  const std::optional<Sm90Rows> rows = sm90_rows(dtype, source.extent, source.k, source.mn_stride, source.k_stride);
  if (!rows || (rows->is_mn && !may_be_mn)) return std::nullopt;
  operand.is_mn = rows->is_mn;
  operand.pitch = rows->pitch;
  return operand;
}

/// The operand in a workspace.
Sm90Operand packed(const Source& source, int workspace, bool may_be_mn) {
  Sm90Operand operand;
  operand.tensor = source.matrix.tensor;
  operand.dtype = source.matrix.dtype;
  operand.extent = source.extent;
  operand.is_mn = may_be_mn && itemsize_bytes(operand.dtype) == 2 && source.mn_stride == 1 && source.k_stride != 1;
  operand.workspace = workspace;
  operand.mn_stride = source.mn_stride;
  operand.k_stride = source.k_stride;
  operand.tensor_batch_stride = batch_stride_of(source.matrix);
  const std::int64_t inner = operand.is_mn ? source.extent : source.k, rows = operand.is_mn ? source.k : source.extent;
  operand.pitch = packed_pitch(operand.dtype, inner);
  operand.batch_stride = operand.tensor_batch_stride != 0 ? operand.pitch * rows : 0;
  return operand;
}

std::int64_t elements(const Sm90Operand& operand, const MatmulCall& call) {
  return operand.extent * call.k * (operand.batch_stride != 0 ? call.batches() : 1);
}

bool has_instruction(const MatmulCall& call) {
  switch (call.a.dtype) {
    case DType::f16:
    case DType::bf16:
    case DType::fp8e4m3:
    case DType::fp8e5m2:
    case DType::i8:
      return true;
    default:
      return call.a.dtype == DType::f32 && call.tf32;
  }
}

}  // namespace

std::optional<Sm90Rows> sm90_rows(DType dtype, std::int64_t extent, std::int64_t k, std::int64_t mn_stride,
                                  std::int64_t k_stride) {
  // A single row has no pitch to speak of.
  const std::int64_t row_of_k = extent == 1 ? kTensorMapAlignmentBytes : mn_stride;
  const std::int64_t row_of_mn = k == 1 ? kTensorMapAlignmentBytes : k_stride;
  if (k_stride == 1 && row_of_k > 0 && is_whole(row_of_k, dtype)) return Sm90Rows{false, row_of_k};
  if (mn_stride == 1 && row_of_mn > 0 && is_whole(row_of_mn, dtype)) return Sm90Rows{true, row_of_mn};
  return std::nullopt;
}

Sm90Call exchanged(Sm90Call call) {
  std::swap(call.m, call.n);
  std::swap(call.a, call.b);
  std::swap(call.out_strides[0], call.out_strides[1]);
  std::swap(call.addend_strides[0], call.addend_strides[1]);
  call.transposed = !call.transposed;
  return call;
}

std::int64_t packed_pitch(DType dtype, std::int64_t elements) {
  const std::int64_t size = itemsize_bytes(dtype);
  return ceil_div(elements * size, kPackedRowBytes) * kPackedRowBytes / size;
}

std::int64_t packed_bytes(const Sm90Operand& operand, const Sm90Call& call) {
  const std::int64_t rows = operand.is_mn ? call.k : operand.extent;
  return operand.pitch * rows * itemsize_bytes(operand.dtype) * (operand.batch_stride != 0 ? call.batches : 1);
}

bool has_sm90_kernel(const Target& target) {
  return is_cuda(target) && target.arch == "sm_90a" && target.features.empty();
}

std::optional<Sm90Call> sm90_call(const MatmulCall& call, const OpCall& tensors) {
  if (!has_instruction(call) || call.out.dtype == DType::f64 || call.batch_extents.size() > 1) return std::nullopt;
  if (std::min({call.m, call.n, call.k, call.batches()}) < 1 ||
      std::max({call.m, call.n, call.k, call.batches()}) > kMostExtent)
    return std::nullopt;
  if (static_cast<double>(ceil_div(call.m, 64)) * static_cast<double>(ceil_div(call.n, 16)) *
          static_cast<double>(call.batches()) >
      static_cast<double>(kMostExtent))
    return std::nullopt;  // tiles are counted in 32 bits too
  const bool narrow = std::min(call.m, call.n) <= kMostNarrowExtent;
  const Source a{call.a, call.m, call.k, call.a.row_stride, call.a.column_stride};
  const Source b{call.b, call.n, call.k, call.b.column_stride, call.b.row_stride};
  bool is_exchanged = narrow && call.m < call.n;
  // Panels of columns of a narrow operand would be mostly empty but for 16-bit types, which have narrow ones.
  const bool a_is_narrow = narrow && is_exchanged, b_is_narrow = narrow && !is_exchanged;
  const bool is_half = itemsize_bytes(call.a.dtype) == 2;
  auto a_operand = in_place(a, tensors, !a_is_narrow || is_half);
  auto b_operand = in_place(b, tensors, !b_is_narrow || is_half);
  if (!is_half) {
    // One operand may lie along m or n, and is the first then: the kernel loads that to registers.
    if (a_operand && b_operand && a_operand->is_mn && b_operand->is_mn)
      (elements(*a_operand, call) < elements(*b_operand, call) ? a_operand : b_operand).reset();
    if (b_operand && b_operand->is_mn) is_exchanged = true;
  }
  // Copies use the whole machine.
  if ((!a_operand || !b_operand) && call.num_sms > 0) return std::nullopt;

  Sm90Call result;
  result.form = narrow                                   ? Sm90Form::narrow
                : call.addend_kind() == ops::kFullAddend ? Sm90Form::with_addend
                                                         : Sm90Form::wide;
  result.m = call.m;
  result.n = call.n;
  result.k = call.k;
  result.batches = call.batches();
  result.a = a_operand.value_or(packed(a, 0, !a_is_narrow));
  result.b = b_operand.value_or(packed(b, a_operand ? 0 : 1, !b_is_narrow));
  const auto strides_of = [](const Matrix& matrix, std::int64_t(&strides)[3]) {
    strides[0] = matrix.row_stride;
    strides[1] = matrix.column_stride;
    strides[2] = batch_stride_of(matrix);
  };
  strides_of(call.out, result.out_strides);
  result.adds_row = call.addend_kind() == ops::kRowAddend;
  if (call.addend.tensor >= 0) strides_of(call.addend, result.addend_strides);
  if (is_exchanged) result = exchanged(result);

  const std::int64_t inner = result.out_strides[result.transposed ? 0 : 1];
  const std::int64_t pitch = result.out_strides[result.transposed ? 1 : 0];
  const std::int64_t lines = result.transposed ? result.n : result.m;
  // A box that reaches out of the tensor is cut off at whole 16 bytes of a line.
  const std::int64_t line = result.transposed ? result.m : result.n;
  result.out_is_mapped =
      takes_tensor_map(view_of(tensors, call.out.tensor).data) && inner == 1 && is_whole(line, call.out.dtype) &&
      (lines == 1 || (pitch > 0 && is_whole(pitch, call.out.dtype))) && is_whole(result.out_strides[2], call.out.dtype);
  return result;
}

}  // namespace kiln::matmul
