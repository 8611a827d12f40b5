#include "ops/matmul/call.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "core/tensor_map.hpp"
#include "ops/common/walk_dim.hpp"
#include "ops/matmul/iteration.hpp"

namespace kiln::matmul {
namespace {

/// A dimension of the output that some of the matrices step through.
using Dim = common::WalkDim<ops::kMatmulMatrices>;
using Strides = std::array<std::int64_t, ops::kMatmulMatrices>;

/// The stride of `view` along the axis that lies `from_end` axes before its last; 0 where it broadcasts.
std::int64_t broadcast_stride(const TensorView& view, int from_end) {
  const int axis = view.ndim() - 1 - from_end;
  return axis < 0 || view.shape[axis] == 1 ? 0 : view.strides[axis];
}

std::string_view activation_type(Activation activation, DType compute, DType out) {
  switch (activation) {
    case Activation::relu:
      return "kiln::ops::ReluActivation";
    case Activation::gelu:
      return compute == DType::f32 && itemsize_bytes(out) <= 2 ? "kiln::ops::GeluNarrowActivation"
                                                               : "kiln::ops::GeluActivation";
    case Activation::silu:
      return "kiln::ops::SiluActivation";
    case Activation::none:
      break;
  }
  return "kiln::ops::NoActivation";
}

}  // namespace

std::int64_t order_of(const Matrix& matrix) {
  return matrix.column_stride == 1 ? 0 : matrix.row_stride == 1 ? 1 : 2;
}

std::int64_t MatmulCall::batches() const {
  std::int64_t product = 1;
  for (const std::int64_t extent : batch_extents) product *= extent;
  return product;
}

int MatmulCall::addend_kind() const {
  if (addend.tensor < 0) return ops::kNoAddend;
  return addend.row_stride == 0 && addend.column_stride == 1 ? ops::kRowAddend : ops::kFullAddend;
}

std::string MatmulCall::epilogue_type() const {
  return fmt::format("kiln::ops::MatmulEpilogue<{}, {}, {}, {}>", info(compute).tl_name,
                     activation_type(activation, compute, out.dtype), addend_kind(), scale_a >= 0);
}

void MatmulCall::add_scalars(common::KernelParameters& parameters) const {
  if (compute == DType::f64)
    parameters.value(ops::MatmulScalars<double>{alpha, beta});
  else if (compute == DType::i32)
    parameters.value(
        ops::MatmulScalars<std::int32_t>{static_cast<std::int32_t>(alpha), static_cast<std::int32_t>(beta)});
  else
    parameters.value(ops::MatmulScalars<float>{static_cast<float>(alpha), static_cast<float>(beta)});
}

MatmulCall make_call(const Problem& problem, const OpCall& call) {
  const TensorView &a = problem.a, &b = problem.b, &out = call.outputs[0];
  const bool has_rows = a.ndim() > 1, has_columns = b.ndim() > 1;
  const bool has_addend = problem.addend_input >= 0 && problem.beta != 0;
  const auto out_strides = [&](int from_end) {
    return Strides{0, 0, has_addend ? broadcast_stride(problem.addend, from_end) : 0, broadcast_stride(out, from_end)};
  };

  MatmulCall result;
  result.k = a.shape.back();
  std::int64_t a_k_stride = a.strides.back();
  std::int64_t b_k_stride = b.strides[has_columns ? b.ndim() - 2 : 0];
  int from_end = 0;  // axes of out that have been looked at
  Dim rows, columns;
  if (has_columns) {
    columns = {b.shape.back(), out_strides(from_end++)};
    columns.strides[ops::kMatmulB] = b.strides.back();
  }
  if (has_rows) {
    rows = {a.shape[a.ndim() - 2], out_strides(from_end++)};
    rows.strides[ops::kMatmulA] = a.strides[a.ndim() - 2];
  }
  std::vector<Dim> batch;
  for (int axis = 0; from_end < out.ndim(); ++axis, ++from_end) {
    Dim dim{out.shape[out.ndim() - 1 - from_end], out_strides(from_end)};
    dim.strides[ops::kMatmulA] = has_rows ? broadcast_stride(a, axis + 2) : 0;
    dim.strides[ops::kMatmulB] = has_columns ? broadcast_stride(b, axis + 2) : 0;
    if (dim.extent == 1) continue;
    if (batch.empty() && dim.strides[ops::kMatmulB] == 0 && common::continues(rows, dim))
      common::take_over(rows, dim);
    else if (batch.empty() && dim.strides[ops::kMatmulA] == 0 && common::continues(columns, dim))
      common::take_over(columns, dim);
    else if (!batch.empty() && common::continues(batch.back(), dim))
      common::take_over(batch.back(), dim);
    else
      batch.push_back(dim);
  }

  const bool exchanged = columns.extent == 1 ? rows.extent > 1
                                             : rows.strides[ops::kMatmulOut] == 1 && rows.extent > 1 &&
                                                   columns.strides[ops::kMatmulOut] != 1;
  const auto exchange = [](Dim& dim) { std::swap(dim.strides[ops::kMatmulA], dim.strides[ops::kMatmulB]); };
  int a_input = problem.a_input, b_input = problem.b_input;
  if (exchanged) {
    std::swap(rows, columns);
    exchange(rows);
    exchange(columns);
    std::for_each(batch.begin(), batch.end(), exchange);
    std::swap(a_k_stride, b_k_stride);
    std::swap(a_input, b_input);
  }
  // An extent of 1 leaves the stride open: the one that reads as contiguous serves best.
  if (columns.extent == 1) columns.strides = {0, 1, 0, 1};
  if (rows.extent == 1) rows.strides = {0, 0, 0, 0};
  if (result.k == 1 && rows.strides[ops::kMatmulA] != 1) a_k_stride = 1;
  if (result.k == 1 && columns.strides[ops::kMatmulB] != 1) b_k_stride = 1;

  result.m = rows.extent;
  result.n = columns.extent;
  for (const Dim& dim : batch) result.batch_extents.push_back(dim.extent);
  const auto make_matrix = [&](int matrix, int tensor, DType dtype, std::int64_t row_stride,
                               std::int64_t column_stride) {
    Matrix made{tensor, dtype, row_stride, column_stride, {}};
    const int input = tensor - static_cast<int>(call.outputs.size());
    if (input >= 0) made.starts_packet = takes_tensor_map(call.inputs[static_cast<std::size_t>(input)].data);
    for (const Dim& dim : batch) made.batch_strides.push_back(dim.strides[static_cast<std::size_t>(matrix)]);
    return made;
  };
  const auto tensor_of = [&](int input) { return input < 0 ? -1 : static_cast<int>(call.outputs.size()) + input; };
  const auto dtype_of = [&](int input) { return call.inputs[static_cast<std::size_t>(input)].dtype; };
  result.a = make_matrix(ops::kMatmulA, tensor_of(a_input), dtype_of(a_input), rows.strides[ops::kMatmulA], a_k_stride);
  result.b =
      make_matrix(ops::kMatmulB, tensor_of(b_input), dtype_of(b_input), b_k_stride, columns.strides[ops::kMatmulB]);
  result.out =
      make_matrix(ops::kMatmulOut, 0, out.dtype, rows.strides[ops::kMatmulOut], columns.strides[ops::kMatmulOut]);
  result.addend = make_matrix(ops::kMatmulAddend, has_addend ? tensor_of(problem.addend_input) : -1,
                              has_addend ? dtype_of(problem.addend_input) : out.dtype, rows.strides[ops::kMatmulAddend],
                              columns.strides[ops::kMatmulAddend]);
  result.scale_a = tensor_of(problem.scale_a_input);
  result.scale_b = tensor_of(problem.scale_b_input);
  result.alpha = problem.alpha;
  result.beta = problem.beta;
  result.activation = problem.activation;
  // Sums of fewer products are waited for less than the results' way to memory, and of 17 million one came out further
  // off than their tolerance, which is for random numbers: some kernels cut operands to 11 bits.
  constexpr std::int64_t kLeastTf32K = 16;
  result.tf32 = problem.tf32 && result.k >= kLeastTf32K;
  result.num_sms = problem.num_sms;
  result.op = problem.op;
  result.processors = call.processors;
  result.cluster_processors = call.cluster_processors;
  result.accumulator = result.a.dtype == DType::f64  ? DType::f64
                       : is_floating(result.a.dtype) ? DType::f32
                                                     : DType::i32;
  result.compute = result.accumulator == DType::i32 && is_floating(out.dtype) ? DType::f32 : result.accumulator;
  return result;
}

}  // namespace kiln::matmul
