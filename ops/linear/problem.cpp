#include "ops/linear/problem.hpp"

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/errors.hpp"
#include "core/nearest_name.hpp"
#include "ops/matmul/problem.hpp"

namespace kiln::linear {
namespace {

using matmul::Activation;
using matmul::Problem;

Activation parse_activation(std::string_view op, const std::string& word) {
  const std::vector<std::string> words = {"none", "relu", "gelu", "silu"};
  for (std::size_t i = 0; i < words.size(); ++i)
    if (words[i] == word) return static_cast<Activation>(i);
  throw_value_error(fmt::format("op '{}': attribute 'activation' is '{}', expected one of {}{}", op, word,
                                fmt::join(words, ", "), did_you_mean(word, words)));
}

Problem resolve(std::string_view op, std::span<const TensorView> inputs, const Attributes& attributes,
                Activation activation) {
  const TensorView &x = inputs[0], &weight = inputs[1];
  Problem problem;
  problem.op = op;
  problem.activation = activation;
  matmul::check_operand_dtypes(op, "x", x, "weight", weight);
  if (weight.ndim() != 2)
    throw_value_error(fmt::format("op '{}': input 'weight' has shape {}, expected 2 dimensions, (out, in)", op,
                                  to_string(weight.shape)));
  if (x.ndim() == 0 || x.shape.back() != weight.shape[1])
    throw_value_error(
        fmt::format("op '{}': input 'x' has shape {} and 'weight' {}; expected x's last dimension to be weight's last, "
                    "{}",
                    op, to_string(x.shape), to_string(weight.shape), weight.shape[1]));
  problem.a = x;
  problem.b = weight;
  std::swap(problem.b.shape[0], problem.b.shape[1]);
  std::swap(problem.b.strides[0], problem.b.strides[1]);
  problem.out_shape = x.shape;
  problem.out_shape[x.ndim() - 1] = weight.shape[0];
  problem.out = matmul::resolve_out_dtype(op, attributes, x.dtype);
  problem.tf32 = matmul::resolve_tf32(op, attributes, x.dtype);
  problem.num_sms = matmul::resolve_num_sms(op, attributes);
  if (problem.out == DType::i32 && activation != Activation::none && activation != Activation::relu)
    throw_value_error(
        fmt::format("op '{}': attribute 'activation' is '{}', but the result is i32, which has no use "
                    "for it; give out_dtype=f32",
                    op, attributes.get_string("activation")));
  if (inputs.size() > 2) {
    const TensorView& bias = inputs[2];
    if (bias.shape != Dims{weight.shape[0]})
      throw_value_error(
          fmt::format("op '{}': input 'bias' has shape {}, expected {}, one number for each row of 'weight' {}", op,
                      to_string(bias.shape), to_string(Dims{weight.shape[0]}), to_string(weight.shape)));
    matmul::check_addend_dtype(op, "bias", bias.dtype, x.dtype, problem.out);
    problem.addend = bias;
    problem.addend_input = 2;
  }
  return problem;
}

}  // namespace

Problem resolve_linear(std::span<const TensorView> inputs, const Attributes& attributes) {
  constexpr std::string_view kOp = "linear";
  return resolve(kOp, inputs, attributes, parse_activation(kOp, attributes.get_string("activation")));
}

Problem resolve_linear_relu(std::span<const TensorView> inputs, const Attributes& attributes) {
  return resolve("linear_relu", inputs, attributes, Activation::relu);
}

}  // namespace kiln::linear
