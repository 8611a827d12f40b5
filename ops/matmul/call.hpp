#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ops/common/kernel_parameters.hpp"
#include "ops/op_spec.hpp"

namespace kiln::matmul {

enum class Activation : std::uint8_t { none, relu, gelu, silu };

/// What an op of the family computes, known from its inputs and attributes alone:
/// out = activation(alpha * scale_a * scale_b * (a @ b) + beta * addend), torch.matmul's shapes, `addend` broadcast.
struct Problem {
  std::string_view op;
  TensorView a, b;  ///< as torch.matmul's operands: linear's weight with its dimensions swapped
  TensorView addend;
  /// Places among the call's inputs; -1: not given.
  int a_input = 0, b_input = 1, addend_input = -1, scale_a_input = -1, scale_b_input = -1;
  double alpha = 1, beta = 1;
  Activation activation = Activation::none;
  bool tf32 = false;         ///< f32 operands may be rounded to tf32 on the GPU
  std::int64_t num_sms = 0;  ///< most processors to use; 0: all
  DType out = DType::f32;
  Dims out_shape;
};

/// From inputs and complete attributes; throws what `OpSpec::infer` documents.
using Resolve = std::function<Problem(std::span<const TensorView>, const Attributes&)>;

/// One matrix of a call, or a batch of them. Strides in elements.
struct Matrix {
  int tensor = -1;  ///< for ArgumentTemplate::add_tensor; -1: not given
  DType dtype = DType::f32;
  std::int64_t row_stride = 0, column_stride = 0;
  std::vector<std::int64_t> batch_strides;  ///< beside MatmulCall::batch_extents
  bool starts_packet = true;                ///< its first element lies at a multiple of 16 bytes
};

/// As kernels number it (ops::MatrixOrder): 0 where columns are contiguous, 1 where rows are, else 2.
std::int64_t order_of(const Matrix& matrix);

/// One call as kernels see it: out (m x n) = a (m x k) @ b (k x n) for each matrix of a batch, in the fewest batch
/// dimensions. Leading dimensions of `a` have become rows where all strides allow. Operands are exchanged (out^T =
/// b^T @ a^T) where that makes out's columns the contiguous ones, and where there would be one column: a matrix-vector
/// product has m = 1.
struct MatmulCall {
  std::int64_t m = 0, n = 0, k = 0;
  std::vector<std::int64_t> batch_extents;  ///< fastest first; none for one matrix
  Matrix a, b, out;
  Matrix addend;                   ///< of out's extents, with strides of 0 where it broadcasts
  int scale_a = -1, scale_b = -1;  ///< tensors as in Matrix::tensor: one f32 each
  double alpha = 1, beta = 1;
  Activation activation = Activation::none;
  bool tf32 = false;
  std::int64_t num_sms = 0;
  std::string_view op;                  ///< for messages
  std::int64_t processors = 0;          ///< see OpCall::processors
  std::int64_t cluster_processors = 0;  ///< see OpCall::cluster_processors
  DType accumulator = DType::f32;       ///< f64 for f64, i32 for i8, f32 for all others
  DType compute = DType::f32;           ///< of the epilogue: i32 where out is i32, else f64 or f32

  std::int64_t batches() const;
  /// Of ops::MatmulAddend.
  int addend_kind() const;
  /// "kiln::ops::MatmulEpilogue<float, kiln::ops::ReluActivation, 1, false>".
  std::string epilogue_type() const;
  /// As a kernel's MatmulScalars<Compute> parameter.
  void add_scalars(common::KernelParameters& parameters) const;
};

MatmulCall make_call(const Problem& problem, const OpCall& call);

}  // namespace kiln::matmul
