#include "ops/linear/spec.hpp"

#include <string>

#include "ops/linear/examples.hpp"
#include "ops/linear/problem.hpp"
#include "ops/matmul/attributes.hpp"
#include "ops/matmul/family.hpp"

namespace kiln::linear {
namespace {

OpSpec make_spec(bool is_relu) {
  OpSpec spec = matmul::make_spec(is_relu ? "linear_relu" : "linear",
                                  {{"x", "(..., in), any strides"},
                                   {"weight", "(out, in), of x's dtype (the fp8 dtypes mix), any strides"},
                                   {"bias", "(out), in the result's dtype, x's, or f32", true}},
                                  is_relu ? resolve_linear_relu : resolve_linear);
  spec.doc = is_relu ? "max(x @ weight^T + bias, 0), as linear with activation='relu'"
                     : "activation(x @ weight^T + bias); dtypes as matmul's, one rounding at the end";
  if (!is_relu)
    spec.attributes.push_back({"activation", std::string("none"), false, "none, relu, gelu (with erf) or silu"});
  spec.attributes.push_back(matmul::out_dtype_attribute());
  spec.attributes.push_back(matmul::precision_attribute());
  spec.attributes.push_back(matmul::num_sms_attribute());
  // i32 is the bias's beside i8 operands.
  spec.dtypes = {DType::f64,     DType::f32,     DType::f16, DType::bf16,
                 DType::fp8e4m3, DType::fp8e5m2, DType::i8,  DType::i32};
  spec.examples = linear_examples(is_relu);
  spec.random_example = [is_relu](std::mt19937_64& random) { return random_linear_example(is_relu, random); };
  return spec;
}

}  // namespace

std::vector<OpSpec> linear_specs() {
  return {make_spec(false), make_spec(true)};
}

}  // namespace kiln::linear
