#include "ops/indexing/examples.hpp"

#include <algorithm>
#include <iterator>

namespace kiln::indexing {
namespace {

constexpr InputRange kSmallNumbers{-1, 1};  // sums of them stay within the tolerances

InputRange indices_below(std::int64_t extent) {
  return {0, static_cast<double>(std::max<std::int64_t>(extent - 1, 0))};
}

std::int64_t random_extent(std::mt19937_64& random, std::int64_t most) {
  constexpr std::int64_t kExtents[] = {1,  2,  3,  4,   5,   7,   8,   13,  15,  16,  17,  31,   32,   33,
                                       63, 64, 65, 127, 128, 129, 251, 255, 256, 257, 509, 1024, 2049, 4099};
  if (random() % 40 == 0) return 0;
  return std::min(kExtents[random() % std::size(kExtents)], most);
}

/// Of at most `most` elements.
Dims random_shape(std::mt19937_64& random, int rank, std::int64_t most) {
  Dims shape;
  for (int axis = 0; axis < rank; ++axis) {
    shape.push_back(random_extent(random, std::max<std::int64_t>(most, 1)));
    most /= std::max<std::int64_t>(shape.back(), 1);
  }
  // The long dimensions shall not always come first.
  if (rank > 1) std::swap(shape[static_cast<int>(random() % static_cast<unsigned>(rank))], shape[rank - 1]);
  return shape;
}

DType one_of(std::mt19937_64& random, std::span<const DType> dtypes) {
  return dtypes[random() % dtypes.size()];
}

DType random_index_dtype(std::mt19937_64& random) {
  return random() % 2 == 0 ? DType::i64 : DType::i32;
}

/// Legal indices, or one to each side of them too.
InputRange random_indices(std::mt19937_64& random, std::int64_t extent) {
  const bool outside = random() % 3 == 0;
  return {outside ? -2.0 : 0.0, static_cast<double>(extent + (outside ? 1 : -1))};
}

/// An axis of `shape`, spelled from either end.
std::int64_t random_dim(std::mt19937_64& random, const Dims& shape) {
  const std::int64_t axes = std::max(shape.size(), 1);
  return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(2 * axes)) - axes;
}

int axis_of_dim(std::int64_t dim, const Dims& shape) {
  return static_cast<int>(dim < 0 ? dim + std::max(shape.size(), 1) : dim);
}

std::int64_t extent_at(const Dims& shape, int axis) {
  return shape.empty() ? 1 : shape[axis];
}

/// An extent up to `most`: often all of it.
std::int64_t random_part(std::mt19937_64& random, std::int64_t most) {
  return random() % 2 == 0 ? most : static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(most + 1));
}

std::int64_t random_size(std::mt19937_64& random) {
  return random() % 50 == 0 ? 1'000'000 : 30'000;
}

Attributes along(std::int64_t dim) {
  return {{"dim", dim}};
}

}  // namespace

std::vector<Example> index_select_examples() {
  return {
      {{{DType::f32, {1000, 512}}, {DType::i64, {300}}}, along(0), {{}, indices_below(1000)}},
      {{{DType::bf16, {500, 64}}, {DType::i32, {200}}}, along(0), {{}, indices_below(500)}},
      {{{DType::f32, {40, 100}}, {DType::i64, {37}}}, along(1), {{}, indices_below(100)}},
      {{{DType::u8, {3, 50, 130}}, {DType::i32, {70}}}, along(-2), {{}, {-3, 55}}},
      {{{DType::f32, {7}}, {DType::i64, {}}}, along(0), {{}, indices_below(7)}},
      {{{DType::f32, {}}, {DType::i64, {1}}}, along(0), {{}, indices_below(1)}},
      {{{DType::f32, {5, 6}}, {DType::i64, {0}}}, along(0), {}},
  };
}

std::vector<Example> gather_examples() {
  return {
      {{{DType::f32, {300, 200}}, {DType::i64, {300, 50}}}, along(1), {{}, indices_below(200)}},
      {{{DType::f16, {100, 60}}, {DType::i32, {130, 60}}}, along(0), {{}, indices_below(100)}},
      {{{DType::bool_, {5, 9, 20}}, {DType::i64, {4, 30, 17}}}, along(-2), {{}, {-2, 10}}},
      {{{DType::f64, {}}, {DType::i64, {}}}, along(-1), {{}, indices_below(1)}},
      {{{DType::f32, {0, 3}}, {DType::i32, {4, 3}}}, along(0), {{}, {-1, 1}}},
  };
}

std::vector<Example> scatter_add_examples() {
  return {
      {{{DType::f32, {200, 300}}, {DType::i64, {500, 300}}, {DType::f32, {500, 300}}},
       along(0),
       {kSmallNumbers, indices_below(200), kSmallNumbers}},
      {{{DType::bf16, {60, 100}}, {DType::i32, {50, 16}}, {DType::bf16, {55, 20}}},
       along(1),
       {kSmallNumbers, {-2, 101}, kSmallNumbers}},
      {{{DType::i64, {11}}, {DType::i64, {3000}}, {DType::i64, {3000}}}, along(-1), {{}, indices_below(11), {}}},
      {{{DType::f64, {}}, {DType::i64, {1}}, {DType::f64, {1}}}, along(0), {{}, indices_below(1), {}}},
      {{{DType::f32, {4, 5}}, {DType::i32, {0, 5}}, {DType::f32, {2, 5}}}, along(0), {}},
  };
}

Example random_index_select(std::mt19937_64& random, std::span<const DType> dtypes) {
  Example example;
  const Dims shape = random_shape(random, static_cast<int>(random() % 6), random_size(random));
  const std::int64_t dim = random_dim(random, shape), extent = extent_at(shape, axis_of_dim(dim, shape));
  // As many rows as make the output about as large as x, at most.
  std::int64_t count = random_extent(random, std::max<std::int64_t>(2 * extent, 8));
  if (shape.empty()) count = 1;
  const Dims index = count == 1 && random() % 2 == 0 ? Dims{} : Dims{count};
  example.inputs = {{one_of(random, dtypes), shape}, {random_index_dtype(random), index}};
  example.attributes = along(dim);
  example.ranges = {{}, random_indices(random, extent)};
  return example;
}

Example random_gather(std::mt19937_64& random, std::span<const DType> dtypes) {
  Example example;
  const Dims shape = random_shape(random, static_cast<int>(random() % 6), random_size(random));
  const std::int64_t dim = random_dim(random, shape);
  const int axis = axis_of_dim(dim, shape);
  Dims index = shape;
  for (int d = 0; d < shape.size(); ++d)
    index[d] =
        d == axis ? random_extent(random, std::max<std::int64_t>(2 * shape[d], 8)) : random_part(random, shape[d]);
  example.inputs = {{one_of(random, dtypes), shape}, {random_index_dtype(random), index}};
  example.attributes = along(dim);
  example.ranges = {{}, random_indices(random, extent_at(shape, axis))};
  return example;
}

Example random_scatter_add(std::mt19937_64& random, std::span<const DType> dtypes) {
  Example example;
  const DType dtype = one_of(random, dtypes);
  const Dims shape = random_shape(random, static_cast<int>(random() % 6), random_size(random));
  const std::int64_t dim = random_dim(random, shape);
  const int axis = axis_of_dim(dim, shape);
  // So many additions may meet in one element; more would add up more rounding than the tolerances allow.
  const std::int64_t most_additions = !is_floating(dtype) ? 4096 : itemsize_bytes(dtype) == 2 ? 8 : 400;
  Dims index = shape, src = shape;
  for (int d = 0; d < shape.size(); ++d) {
    index[d] = d == axis ? random_extent(random, std::min(std::max<std::int64_t>(2 * shape[d], 8), most_additions))
                         : random_part(random, shape[d]);
    src[d] = index[d] + (random() % 3 == 0 ? 2 : 0);
  }
  example.inputs = {{dtype, shape}, {random_index_dtype(random), index}, {dtype, src}};
  example.attributes = along(dim);
  const InputRange values = is_floating(dtype) ? kSmallNumbers : InputRange{};
  example.ranges = {values, random_indices(random, extent_at(shape, axis)), values};
  return example;
}

}  // namespace kiln::indexing
