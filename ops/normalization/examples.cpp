#include "ops/normalization/examples.hpp"

#include <cstddef>

#include "ops/common/random_shape.hpp"

namespace kiln::normalization {
namespace {

constexpr DType kDTypes[] = {DType::f32, DType::bf16, DType::f16, DType::f64, DType::fp8e4m3, DType::fp8e5m2};

/// Now and then rows of a million.
Dims random_shape(int least_rank, std::mt19937_64& random) {
  const bool is_long = random() % 50 == 0;
  return common::random_shape({.least_rank = least_rank,
                               .most_elements = is_long ? 1 << 20 : 40'000,
                               .may_be_empty = !is_long,
                               .has_long_axis = is_long},
                              random);
}

}  // namespace

std::vector<Example> softmax_examples() {
  std::vector<Example> examples = {
      {{{DType::f32, {64, 4096}}}, {}},
      {{{DType::bf16, {33, 1000}}}, {}},
      {{{DType::f32, {}}}, {}},
      {{{DType::f32, {0, 3}}}, {}},
      {{{DType::f32, {100, 3, 64}}}, {{"dim", std::int64_t{1}}}},
      {{{DType::f16, {40, 50}}}, {{"dim", std::int64_t{0}}}},
      {{{DType::bf16, {8, 2048}}}, {{"dtype", DType::f32}}},
      {{{DType::f32, {2, 70000}}}, {}},
      {{{DType::f32, {30000, 10}}}, {}},
  };
  return examples;
}

Example random_softmax_example(std::mt19937_64& random) {
  Example example;
  const Dims shape = random_shape(0, random);
  example.inputs = {{common::one_of(kDTypes, random), shape}};
  if (random() % 3 != 0) example.attributes.set("dim", common::random_axis(shape.size(), random));
  if (random() % 3 == 0) example.attributes.set("dtype", common::one_of(kDTypes, random));
  return example;
}

std::vector<Example> norm_examples(bool is_layer) {
  std::vector<Example> examples = {
      {{{DType::f32, {64, 4096}}, {DType::f32, {4096}}}, {}},
      {{{DType::bf16, {33, 1000}}, {DType::bf16, {1000}}}, {{"eps", 1e-6}}},
      {{{DType::f32, {7, 5}}}, {}},
      {{{DType::f32, {0, 3}}}, {}},
      {{{DType::bf16, {64, 768}}, {DType::f32, {768}}}, {}},
      {{{DType::f16, {6, 8, 10}}, {DType::f16, {8, 10}}}, {{"normalized_shape", std::vector<std::int64_t>{8, 10}}}},
      {{{DType::f32, {3, 40000}}}, {}},
  };
  if (is_layer)
    examples.push_back({{{DType::f32, {20, 513}}, {DType::f32, {513}}, {DType::f32, {513}}}, {}});
  else
    examples.push_back(
        {{{DType::bf16, {20, 4096}}, {DType::bf16, {4096}}, {DType::bf16, {20, 4096}}}, {{"eps", 1e-6}}});
  return examples;
}

Example random_norm_example(bool is_layer, std::mt19937_64& random) {
  Example example;
  const Dims shape = random_shape(1, random);
  const DType dtype = common::one_of(kDTypes, random);
  example.inputs = {{dtype, shape}};
  const bool is_default = random() % 2 == 0;
  const int normalized = is_default ? 1 : 1 + static_cast<int>(random() % static_cast<std::size_t>(shape.size()));
  Dims parameter;
  for (int axis = shape.size() - normalized; axis < shape.size(); ++axis) parameter.push_back(shape[axis]);
  if (!is_default)
    example.attributes.set("normalized_shape", std::vector<std::int64_t>(parameter.begin(), parameter.end()));
  if (random() % 2 == 0) example.attributes.set("eps", random() % 2 == 0 ? 1e-6 : 0.5);
  const DType parameter_dtype = dtype != DType::f64 && random() % 3 == 0 ? DType::f32 : dtype;
  const auto more = random() % 3;
  if (more > 0) example.inputs.push_back({parameter_dtype, parameter});
  if (more > 1 && random() % 4 == 0) example.inputs[1].absent = true;
  if (more > 1) example.inputs.push_back(is_layer ? TensorMeta{parameter_dtype, parameter} : TensorMeta{dtype, shape});
  return example;
}

}  // namespace kiln::normalization
