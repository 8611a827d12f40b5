#include "ops/normalization/examples.hpp"

#include <algorithm>
#include <cstddef>
#include <iterator>

namespace kiln::normalization {
namespace {

constexpr DType kDTypes[] = {DType::f32, DType::bf16, DType::f16, DType::f64, DType::fp8e4m3, DType::fp8e5m2};

DType random_dtype(std::mt19937_64& random) {
  return kDTypes[random() % std::size(kDTypes)];
}

/// 0 now and then; else small numbers, and powers of two, primes and their neighbours.
std::int64_t random_extent(std::int64_t most, std::mt19937_64& random) {
  constexpr std::int64_t kExtents[] = {1,   2,   3,   4,    5,    7,    8,    12,   16,   17,   31,   32,
                                       33,  63,  64,  65,   97,   127,  128,  129,  255,  256,  257,  384,
                                       509, 512, 768, 1000, 1024, 1025, 2048, 2560, 4096, 4097, 5120, 10007};
  if (random() % 40 == 0) return 0;
  const auto end = std::upper_bound(std::begin(kExtents), std::end(kExtents), std::max<std::int64_t>(most, 1));
  return kExtents[random() % static_cast<std::size_t>(end - std::begin(kExtents))];
}

/// Ranks 0 to 5, at most about 40000 elements; now and then one row of a million.
Dims random_shape(int least_rank, std::mt19937_64& random) {
  if (random() % 50 == 0) return random() % 2 == 0 ? Dims{1, 1 << 20} : Dims{999983};
  const auto rank = std::max(least_rank, static_cast<int>(random() % 6));
  Dims shape;
  for (int axis = 0; axis < rank; ++axis) shape.push_back(1);
  std::int64_t left = 40000;
  // The axes in a random order, so that each is the long one at times.
  for (int axis = static_cast<int>(random() % 6), i = 0; i < rank; ++i, ++axis) {
    std::int64_t& extent = shape[axis % rank];
    extent = random_extent(left, random);
    left /= std::max<std::int64_t>(extent, 1);
  }
  return shape;
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
  example.inputs = {{random_dtype(random), shape}};
  if (random() % 3 != 0) {
    const int axes = std::max(shape.size(), 1);
    example.attributes.set("dim", static_cast<std::int64_t>(random() % static_cast<std::size_t>(2 * axes)) - axes);
  }
  if (random() % 3 == 0) example.attributes.set("dtype", random_dtype(random));
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
  const DType dtype = random_dtype(random);
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
  if (more > 1) example.inputs.push_back(is_layer ? TensorMeta{parameter_dtype, parameter} : TensorMeta{dtype, shape});
  return example;
}

}  // namespace kiln::normalization
