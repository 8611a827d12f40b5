#pragma once

#include <string_view>

#include "ops/matmul/call.hpp"

namespace kiln::matmul {

// What the ops of the family check in their inputs and attributes; `op` and the inputs' names are for messages.

/// UsageError(type) unless both are of one dtype, or both fp8.
void check_operand_dtypes(std::string_view op, std::string_view a_name, const TensorView& a, std::string_view b_name,
                          const TensorView& b);

/// torch.matmul's shape: operands of one dimension are a row and a column, whose dimension the result does not have;
/// others are batches of matrices, which broadcast. UsageError(value) naming both shapes.
Dims product_shape(std::string_view op, std::string_view a_name, const TensorView& a, std::string_view b_name,
                   const TensorView& b);

/// Attribute `out_dtype`. None is the operands' dtype for floats of 16 bits and more, bf16 for fp8 (a sum of products
/// hardly fits 3 bits of mantissa, and bf16 has the range of the f32 accumulator) and i32 for i8 (the accumulator).
/// UsageError(type) for a dtype that the accumulator is not rounded to.
DType resolve_out_dtype(std::string_view op, const Attributes& attributes, DType operands);

/// Attribute `precision`, "ieee" or "tf32": whether tf32 may be used. UsageError(value) for another word and for tf32
/// with operands other than f32.
bool resolve_tf32(std::string_view op, const Attributes& attributes, DType operands);

/// Attribute `num_sms`; UsageError(value) when negative.
std::int64_t resolve_num_sms(std::string_view op, const Attributes& attributes);

/// UsageError(type) unless the addend is of the output's dtype, of the operands', or f32 beside narrower floats.
void check_addend_dtype(std::string_view op, std::string_view name, DType addend, DType operands, DType out);

Problem resolve_matmul(std::span<const TensorView> inputs, const Attributes& attributes);
Problem resolve_scaled_matmul(std::span<const TensorView> inputs, const Attributes& attributes);

}  // namespace kiln::matmul
