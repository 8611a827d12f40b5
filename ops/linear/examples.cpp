#include "ops/linear/examples.hpp"

#include <algorithm>
#include <iterator>
#include <string>

#include "ops/matmul/examples.hpp"

namespace kiln::linear {
namespace {

/// Multiply-adds of a random call.
constexpr std::int64_t kMostProducts = 400'000;

}  // namespace

std::vector<Example> linear_examples(bool is_relu) {
  std::vector<Example> examples = {
      {{{DType::f32, {100, 96}}, {DType::f32, {144, 96}}, {DType::f32, {144}}}, {}},
      {{{DType::bf16, {4, 32, 256}}, {DType::bf16, {192, 256}}, {DType::bf16, {192}}}, {}},
      {{{DType::f16, {1, 300}}, {DType::f16, {70, 300}}}, {}},
      {{{DType::f32, {64}}, {DType::f32, {10, 64}}, {DType::f32, {10}}}, {}},
      {{{DType::fp8e4m3, {48, 128}}, {DType::fp8e4m3, {64, 128}}, {DType::bf16, {64}}},
       {},
       matmul::operand_ranges(DType::fp8e4m3)},
      {{{DType::i8, {33, 64}}, {DType::i8, {40, 64}}, {DType::i32, {40}}}, {}},
  };
  if (is_relu) return examples;
  for (const char* activation : {"relu", "gelu", "silu"})
    examples.push_back({{{DType::bf16, {65, 128}}, {DType::bf16, {72, 128}}, {DType::f32, {72}}},
                        {{"activation", std::string(activation)}}});
  return examples;
}

Example random_linear_example(bool is_relu, std::mt19937_64& random) {
  const DType dtype = matmul::random_operand_dtype(random);
  std::int64_t extents[] = {matmul::random_extent(random), matmul::random_extent(random),
                            matmul::random_extent(random)};
  auto& [rows, outs, ins] = extents;
  while (rows * outs * ins > kMostProducts) {
    std::int64_t& largest = *std::max_element(std::begin(extents), std::end(extents));
    largest = (largest + 1) / 2;
  }
  if (random() % 30 == 0) extents[random() % 3] = 0;
  Dims x;
  if (random() % 8 != 0) {
    // Leading dimensions whose product is the rows.
    for (auto dims = random() % 3; dims > 0 && rows > 0; --dims)
      for (const std::int64_t divisor : {4, 3, 2, 1})
        if (rows % divisor == 0) {
          x.push_back(divisor);
          rows /= divisor;
          break;
        }
    x.push_back(rows);
  }
  x.push_back(ins);
  Example example{{{dtype, x}, {dtype, {outs, ins}}}, {}, matmul::operand_ranges(dtype)};
  const AttributeValue out = matmul::random_out_dtype(random, dtype);
  const auto* given = std::get_if<DType>(&out);
  if (given != nullptr) example.attributes.set("out_dtype", *given);
  const DType narrow = is_fp8(dtype) ? DType::bf16 : dtype == DType::i8 ? DType::i32 : dtype;
  const DType result = given != nullptr ? *given : narrow;
  if (random() % 4 != 0)
    example.inputs.push_back({is_floating(result) && random() % 4 == 0 ? DType::f32 : result, {outs}});
  if (!is_relu) {
    constexpr const char* kActivations[] = {"none", "relu", "gelu", "silu"};
    example.attributes.set("activation", std::string(kActivations[random() % (is_floating(result) ? 4 : 2)]));
  }
  if (random() % 8 == 0) example.attributes.set("num_sms", static_cast<std::int64_t>(1 + random() % 8));
  return example;
}

}  // namespace kiln::linear
