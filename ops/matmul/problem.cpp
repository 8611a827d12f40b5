#include "ops/matmul/problem.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "core/errors.hpp"
#include "core/nearest_name.hpp"
#include "ops/common/attribute_reader.hpp"

namespace kiln::matmul {
namespace {

/// The dtypes the accumulator of `operands` can be rounded to.
std::vector<DType> out_dtypes(DType operands) {
  if (operands == DType::i8) return {DType::i32, DType::f32, DType::f16, DType::bf16};
  std::vector<DType> dtypes = {DType::f32, DType::f16, DType::bf16, DType::fp8e4m3, DType::fp8e5m2};
  if (operands == DType::f64) dtypes.insert(dtypes.begin(), DType::f64);
  return dtypes;
}

void check_broadcasts_to(std::string_view op, std::string_view name, const Dims& shape, const Dims& out) {
  bool fits = shape.size() <= out.size();
  for (int from_end = 1; fits && from_end <= shape.size(); ++from_end) {
    const std::int64_t extent = shape[shape.size() - from_end];
    fits = extent == 1 || extent == out[out.size() - from_end];
  }
  if (!fits)
    throw_value_error(fmt::format("op '{}': input '{}' has shape {}, which does not broadcast to the result's, {}", op,
                                  name, to_string(shape), to_string(out)));
}

/// alpha and beta of a whole-number result.
void check_whole(std::string_view op, std::string_view attribute, double value) {
  const bool fits = value == std::floor(value) && value >= std::numeric_limits<std::int32_t>::min() &&
                    value <= std::numeric_limits<std::int32_t>::max();
  if (!fits)
    throw_value_error(
        fmt::format("op '{}': attribute '{}' is {}, but the result is i32 and takes a whole number of 32 bits; give "
                    "out_dtype=f32 for others",
                    op, attribute, value));
}

/// What matmul and scaled_matmul share.
Problem product(std::string_view op, std::span<const TensorView> inputs, const Attributes& attributes) {
  Problem problem;
  problem.op = op;
  problem.a = inputs[0];
  problem.b = inputs[1];
  check_operand_dtypes(op, "a", problem.a, "b", problem.b);
  problem.out_shape = product_shape(op, "a", problem.a, "b", problem.b);
  problem.out = resolve_out_dtype(op, attributes, problem.a.dtype);
  problem.num_sms = resolve_num_sms(op, attributes);
  return problem;
}

}  // namespace

void check_operand_dtypes(std::string_view op, std::string_view a_name, const TensorView& a, std::string_view b_name,
                          const TensorView& b) {
  if (a.dtype == DType::i32)
    throw_type_error(
        fmt::format("op '{}': '{}' is {}; i32 is what products of i8 add up to, not what they take: expected i8 or a "
                    "floating dtype",
                    op, a_name, describe(a)));
  if (a.dtype != b.dtype && !(is_fp8(a.dtype) && is_fp8(b.dtype)))
    throw_type_error(
        fmt::format("op '{}': '{}' is {} and '{}' is {}; expected one dtype for both (only the two fp8 dtypes mix)", op,
                    a_name, describe(a), b_name, describe(b)));
}

Dims product_shape(std::string_view op, std::string_view a_name, const TensorView& a, std::string_view b_name,
                   const TensorView& b) {
  for (const auto& [operand, view] : {std::pair{a_name, &a}, {b_name, &b}})
    if (view->ndim() == 0)
      throw_value_error(
          fmt::format("op '{}': input '{}' has no dimensions, expected at least 1 ('{}' has shape {}, '{}' {})", op,
                      operand, a_name, to_string(a.shape), b_name, to_string(b.shape)));
  const int b_k_axis = b.ndim() > 1 ? b.ndim() - 2 : 0;
  if (a.shape.back() != b.shape[b_k_axis])
    throw_value_error(fmt::format(
        "op '{}': the inner dimensions of '{}' {} and '{}' {} differ: dimension {} of '{}' is {}, dimension "
        "{} of '{}' is {}",
        op, a_name, to_string(a.shape), b_name, to_string(b.shape), a.ndim() - 1, a_name, a.shape.back(), b_k_axis,
        b_name, b.shape[b_k_axis]));
  Dims batches[2];
  for (int axis = 0; axis < a.ndim() - 2; ++axis) batches[0].push_back(a.shape[axis]);
  for (int axis = 0; axis < b.ndim() - 2; ++axis) batches[1].push_back(b.shape[axis]);
  Dims shape;
  try {
    shape = broadcast_shapes(batches);
  } catch (const UsageError&) {
    throw_value_error(fmt::format("op '{}': the batch dimensions of '{}' {} and '{}' {} do not broadcast: {} and {}",
                                  op, a_name, to_string(a.shape), b_name, to_string(b.shape), to_string(batches[0]),
                                  to_string(batches[1])));
  }
  if (a.ndim() > 1) shape.push_back(a.shape[a.ndim() - 2]);
  if (b.ndim() > 1) shape.push_back(b.shape.back());
  return shape;
}

DType resolve_out_dtype(std::string_view op, const Attributes& attributes, DType operands) {
  const DType narrow = is_fp8(operands) ? DType::bf16 : operands == DType::i8 ? DType::i32 : operands;
  const DType out = dtype_of(op, "out_dtype", *attributes.find("out_dtype")).value_or(narrow);
  const std::vector<DType> legal = out_dtypes(operands);
  if (std::find(legal.begin(), legal.end(), out) == legal.end())
    throw_type_error(fmt::format("op '{}': attribute 'out_dtype' is {}, but {} operands give one of {}", op, name(out),
                                 name(operands), dtype_names(legal)));
  return out;
}

bool resolve_tf32(std::string_view op, const Attributes& attributes, DType operands) {
  const std::vector<std::string> words = {"ieee", "tf32"};
  const std::string& precision = attributes.get_string("precision");
  if (precision == words[0]) return false;
  if (precision != words[1])
    throw_value_error(fmt::format("op '{}': attribute 'precision' is '{}', expected 'ieee' or 'tf32'{}", op, precision,
                                  did_you_mean(precision, words)));
  if (operands != DType::f32)
    throw_value_error(
        fmt::format("op '{}': attribute 'precision' is 'tf32', which rounds f32 operands, but these are {}; leave it "
                    "out for them",
                    op, name(operands)));
  return true;
}

std::int64_t resolve_num_sms(std::string_view op, const Attributes& attributes) {
  const std::int64_t num_sms = attributes.get_int("num_sms");
  if (num_sms < 0)
    throw_value_error(fmt::format(
        "op '{}': attribute 'num_sms' is {}, expected 0 for all processors or the most to use", op, num_sms));
  return num_sms;
}

void check_addend_dtype(std::string_view op, std::string_view name_of_input, DType addend, DType operands, DType out) {
  std::vector<DType> legal = {out};
  const auto allow = [&](DType dtype) {
    if (std::find(legal.begin(), legal.end(), dtype) == legal.end()) legal.push_back(dtype);
  };
  if (is_floating(out)) {
    if (is_floating(operands) && !is_fp8(operands)) allow(operands);
    allow(DType::f32);
  }
  if (std::find(legal.begin(), legal.end(), addend) == legal.end())
    throw_type_error(fmt::format("op '{}': input '{}' is {}, expected {} beside {} operands and a result in {}", op,
                                 name_of_input, name(addend), dtype_names(legal), name(operands), name(out)));
}

Problem resolve_matmul(std::span<const TensorView> inputs, const Attributes& attributes) {
  constexpr std::string_view kOp = "matmul";
  Problem problem = product(kOp, inputs, attributes);
  problem.tf32 = resolve_tf32(kOp, attributes, problem.a.dtype);
  problem.alpha = attributes.get_double("alpha");
  problem.beta = attributes.get_double("beta");
  if (problem.out == DType::i32) {
    check_whole(kOp, "alpha", problem.alpha);
    check_whole(kOp, "beta", problem.beta);
  }
  if (inputs.size() > 2) {
    problem.addend = inputs[2];
    problem.addend_input = 2;
    check_broadcasts_to(kOp, "c", problem.addend.shape, problem.out_shape);
    check_addend_dtype(kOp, "c", problem.addend.dtype, problem.a.dtype, problem.out);
  }
  return problem;
}

Problem resolve_scaled_matmul(std::span<const TensorView> inputs, const Attributes& attributes) {
  constexpr std::string_view kOp = "scaled_matmul";
  for (const std::size_t i : {0u, 1u})
    if (!is_fp8(inputs[i].dtype))
      throw_type_error(fmt::format("op '{}': input '{}' is {}, expected fp8e4m3 or fp8e5m2; matmul serves other dtypes",
                                   kOp, i == 0 ? "a" : "b", name(inputs[i].dtype)));
  Problem problem = product(kOp, inputs, attributes);
  for (const std::size_t i : {2u, 3u}) {
    const TensorView& scale = inputs[i];
    if (scale.dtype != DType::f32 || scale.numel() != 1)
      throw_value_error(fmt::format("op '{}': input '{}' is {}, expected one f32 number", kOp,
                                    i == 2 ? "scale_a" : "scale_b", describe(scale)));
  }
  problem.scale_a_input = 2;
  problem.scale_b_input = 3;
  return problem;
}

}  // namespace kiln::matmul
