#include "ops/indexing/examples.hpp"

#include <algorithm>
#include <cstdint>

#include "ops/common/element.hpp"
#include "ops/common/random_shape.hpp"

namespace kiln::indexing {
namespace {

constexpr InputRange kSmallNumbers{-1, 1};  // sums of them stay within the tolerances

/// Up to `most`; now and then 0.
std::int64_t random_extent(std::mt19937_64& random, std::int64_t most) {
  return random() % 40 == 0 ? 0 : common::random_extent(most, random);
}

Dims random_shape(std::mt19937_64& random) {
  return common::random_shape({.most_elements = random() % 50 == 0 ? 1'000'000 : 30'000}, random);
}

int axis_of_dim(std::int64_t dim, const Dims& shape) {
  return static_cast<int>(dim < 0 ? dim + std::max(shape.size(), 1) : dim);
}

std::int64_t extent_at(const Dims& shape, int axis) {
  return shape.empty() ? 1 : shape[axis];
}

/// An extent up to `most`: often all of it.
std::int64_t random_part(std::mt19937_64& random, std::int64_t most) {
  return random() % 2 == 0 ? most : common::random_up_to(most, random);
}

Attributes along(std::int64_t dim) {
  return {{"dim", dim}};
}

}  // namespace

std::vector<Example> index_select_examples() {
  return {
      {{{DType::f32, {1000, 512}}, {DType::i64, {300}}}, along(0)},
      {{{DType::bf16, {500, 64}}, {DType::i32, {200}}}, along(0)},
      {{{DType::f32, {40, 100}}, {DType::i64, {37}}}, along(1)},
      {{{DType::u8, {3, 50, 130}}, {DType::i32, {70}}}, along(-2)},
      {{{DType::f32, {7}}, {DType::i64, {}}}, along(0)},
      {{{DType::f32, {}}, {DType::i64, {1}}}, along(0)},
      {{{DType::f32, {5, 6}}, {DType::i64, {0}}}, along(0)},
  };
}

std::vector<Example> gather_examples() {
  return {
      {{{DType::f32, {300, 200}}, {DType::i64, {300, 50}}}, along(1)},
      {{{DType::f16, {100, 60}}, {DType::i32, {130, 60}}}, along(0)},
      {{{DType::bool_, {5, 9, 20}}, {DType::i64, {4, 30, 17}}}, along(-2)},
      {{{DType::f64, {}}, {DType::i64, {}}}, along(-1)},
      {{{DType::f32, {0, 3}}, {DType::i32, {4, 3}}}, along(0)},
  };
}

std::vector<Example> scatter_add_examples() {
  return {
      {{{DType::f32, {200, 300}}, {DType::i64, {500, 300}}, {DType::f32, {500, 300}}},
       along(0),
       {kSmallNumbers, {}, kSmallNumbers}},
      {{{DType::bf16, {60, 100}}, {DType::i32, {50, 16}}, {DType::bf16, {55, 20}}},
       along(1),
       {kSmallNumbers, {}, kSmallNumbers}},
      {{{DType::i64, {11}}, {DType::i64, {3000}}, {DType::i64, {3000}}}, along(-1)},
      {{{DType::f64, {}}, {DType::i64, {1}}, {DType::f64, {1}}}, along(0)},
      {{{DType::f32, {4, 5}}, {DType::i32, {0, 5}}, {DType::f32, {2, 5}}}, along(0)},
  };
}

Example random_index_select(std::mt19937_64& random, std::span<const DType> dtypes) {
  Example example;
  const Dims shape = random_shape(random);
  const std::int64_t dim = common::random_axis(shape.size(), random),
                     extent = extent_at(shape, axis_of_dim(dim, shape));
  // As many rows as make the output about as large as x, at most.
  std::int64_t count = random_extent(random, std::max<std::int64_t>(2 * extent, 8));
  if (shape.empty()) count = 1;
  const Dims index = count == 1 && random() % 2 == 0 ? Dims{} : Dims{count};
  example.inputs = {{common::one_of(dtypes, random), shape}, {common::random_index_dtype(random), index}};
  example.attributes = along(dim);
  return example;
}

Example random_gather(std::mt19937_64& random, std::span<const DType> dtypes) {
  Example example;
  const Dims shape = random_shape(random);
  const std::int64_t dim = common::random_axis(shape.size(), random);
  const int axis = axis_of_dim(dim, shape);
  Dims index = shape;
  for (int d = 0; d < shape.size(); ++d)
    index[d] =
        d == axis ? random_extent(random, std::max<std::int64_t>(2 * shape[d], 8)) : random_part(random, shape[d]);
  example.inputs = {{common::one_of(dtypes, random), shape}, {common::random_index_dtype(random), index}};
  example.attributes = along(dim);
  return example;
}

Example random_scatter_add(std::mt19937_64& random, std::span<const DType> dtypes) {
  Example example;
  const DType dtype = common::one_of(dtypes, random);
  const Dims shape = random_shape(random);
  const std::int64_t dim = common::random_axis(shape.size(), random);
  const int axis = axis_of_dim(dim, shape);
  // So many additions may meet in one element; more would add up more rounding than the tolerances allow.
  const std::int64_t most_additions = !is_floating(dtype) ? 4096 : itemsize_bytes(dtype) == 2 ? 8 : 400;
  Dims index = shape, src = shape;
  for (int d = 0; d < shape.size(); ++d) {
    index[d] = d == axis ? random_extent(random, std::min(std::max<std::int64_t>(2 * shape[d], 8), most_additions))
                         : random_part(random, shape[d]);
    src[d] = index[d] + (random() % 3 == 0 ? 2 : 0);
  }
  example.inputs = {{dtype, shape}, {common::random_index_dtype(random), index}, {dtype, src}};
  example.attributes = along(dim);
  const InputRange values = is_floating(dtype) ? kSmallNumbers : InputRange{};
  example.ranges = {values, {}, values};
  return example;
}

void spoil_index(const OpCall& call, std::mt19937_64& random) {
  if (random() % 3 != 0) return;
  const TensorView& index = call.inputs[1];
  const Dims& shape = call.inputs[0].shape;
  const std::int64_t dim = call.attributes.get_int("dim"), extent = extent_at(shape, axis_of_dim(dim, shape));
  const std::int64_t outside[] = {-1, -2, extent, extent + 1};
  for (std::int64_t i = 0; i < index.numel(); ++i) {
    if (random() % 8 != 0) continue;
    std::int64_t rest = i, offset = 0;
    for (int axis = index.ndim() - 1; axis >= 0; rest /= index.shape[axis--])
      offset += rest % index.shape[axis] * index.strides[axis];
    common::store_at<std::int64_t>(index, offset, common::one_of(outside, random));
  }
}

}  // namespace kiln::indexing
