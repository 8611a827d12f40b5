#include "ops/matmul/spec.hpp"

#include "ops/matmul/attributes.hpp"
#include "ops/matmul/examples.hpp"
#include "ops/matmul/family.hpp"
#include "ops/matmul/problem.hpp"

namespace kiln::matmul {
namespace {

OpSpec matmul_spec() {
  OpSpec spec = make_spec("matmul",
                          {{"a", "(..., m, k) or (k), any strides"},
                           {"b", "(..., k, n) or (k), of a's dtype (the fp8 dtypes mix), any strides"},
                           {"c", "added; broadcasts to the result; in the result's dtype, a's, or f32", true}},
                          resolve_matmul);
  spec.doc =
      "alpha * (a @ b) + beta * c with torch.matmul's shapes; narrow floats accumulate in f32 (fp8 on sm_90 with about "
      "14 bits, in parts of 32768; of bf16 CPUs with AVX512-BF16 take numbers and products below 2^-126 for 0), i8 in "
      "i32, which wraps";
  spec.attributes = {
      {"alpha", 1.0, false, "factor of the product"},
      {"beta", 1.0, false, "factor of c; with 0 c is not read"},
      out_dtype_attribute(),
      precision_attribute(),
      num_sms_attribute(),
  };
  // i32 is c's beside i8 operands.
  spec.dtypes = {DType::f64,     DType::f32,     DType::f16, DType::bf16,
                 DType::fp8e4m3, DType::fp8e5m2, DType::i8,  DType::i32};
  spec.examples = matmul_examples();
  spec.random_example = random_matmul_example;
  return spec;
}

OpSpec scaled_matmul_spec() {
  OpSpec spec = make_spec("scaled_matmul",
                          {{"a", "(..., m, k) or (k), fp8, any strides"},
                           {"b", "(..., k, n) or (k), fp8, any strides"},
                           {"scale_a", "one f32 number"},
                           {"scale_b", "one f32 number"}},
                          resolve_scaled_matmul);
  spec.doc =
      "(scale_a * a) @ (scale_b * b) of fp8 matrices with one scale each, accumulated in f32 (on sm_90 with about 14 "
      "bits, in parts of 32768)";
  spec.attributes = {out_dtype_attribute(), num_sms_attribute()};
  spec.dtypes = {DType::fp8e4m3, DType::fp8e5m2, DType::f32};
  spec.input_ranges = {{-1, 1}, {-1, 1}, {0.25, 1}, {0.25, 1}};  // what divided the operands is above zero
  spec.examples = scaled_matmul_examples();
  spec.random_example = random_scaled_matmul_example;
  return spec;
}

}  // namespace

std::vector<OpSpec> matmul_specs() {
  return {matmul_spec(), scaled_matmul_spec()};
}

}  // namespace kiln::matmul
