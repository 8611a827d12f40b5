#include "ops/layout/examples.hpp"

#include <algorithm>
#include <iterator>
#include <numeric>

#include "core/errors.hpp"

namespace kiln::layout {
namespace {

std::int64_t below(std::mt19937_64& random, std::int64_t count) {
  return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(count));
}

DType random_dtype(std::mt19937_64& random) {
  return kAllDTypes[static_cast<std::size_t>(below(random, std::ssize(kAllDTypes)))];
}

/// A shape of `rank` dimensions and at most `most` elements.
Dims random_shape(std::mt19937_64& random, int rank, std::int64_t most) {
  constexpr std::int64_t kExtents[] = {1,  2,  3,  4,  7,   8,   9,   16,  17,  31,  32,  33,
                                       61, 63, 64, 65, 100, 127, 128, 129, 251, 256, 257, 1009};
  Dims shape;
  std::int64_t elements = 1;
  for (int axis = 0; axis < rank; ++axis) {
    std::int64_t extent = below(random, 40) == 0 ? 0 : kExtents[below(random, std::ssize(kExtents))];
    while (elements * extent > most) extent = (extent + 1) / 2;
    elements *= std::max<std::int64_t>(extent, 1);
    shape.push_back(extent);
  }
  return shape;
}

std::int64_t random_axis(std::mt19937_64& random, int rank) {
  return below(random, 2 * rank) - rank;
}

}  // namespace

std::vector<Example> examples_of(std::string_view op) {
  using List = std::vector<std::int64_t>;
  if (op == "transpose")
    return {{{{DType::f32, {200, 130}}}, {}},
            {{{DType::i8, {257, 300}}}, {}},
            {{{DType::bf16, {3, 70, 129}}}, {{"dim0", std::int64_t{0}}, {"dim1", std::int64_t{-1}}}},
            {{{DType::f64, {0, 5}}}, {}}};
  if (op == "permute")
    return {{{{DType::bf16, {4, 33, 8, 128}}}, {{"dims", List{0, 2, 1, 3}}}},
            {{{DType::f32, {5, 64, 65}}}, {{"dims", List{-1, 0, 1}}}},
            {{{DType::u8, {2, 3, 4, 5, 6}}}, {{"dims", List{4, 2, 0, 3, 1}}}},
            {{{DType::f32, {}}}, {{"dims", List{}}}}};
  if (op == "copy")
    return {{{{DType::f32, {64, 1000}}}, {}},
            {{{DType::f32, {33, 65}}}, {{"dtype", DType::bf16}}},
            {{{DType::i64, {1000}}}, {{"dtype", DType::u8}}},
            {{{DType::bool_, {}}}, {}}};
  if (op == "concat")
    return {{{{DType::f32, {40, 65}}, {DType::f32, {24, 65}}}, {}},
            {{{DType::bf16, {5, 30}}, {DType::bf16, {5, 0}}, {DType::bf16, {5, 101}}}, {{"dim", std::int64_t{-1}}}},
            {{{DType::i32, {7}}}, {}}};
  throw InternalError("the layout family has no op '" + std::string(op) + "'");
}

Example random_example_of(std::string_view op, std::mt19937_64& random) {
  const bool large = below(random, 50) == 0;
  const std::int64_t most = large ? 1'000'000 : 40'000;
  int rank = static_cast<int>(below(random, 6));
  const DType dtype = random_dtype(random);
  Example example;
  if (op == "transpose") {
    rank = std::max(rank, 1);
    example.inputs = {{dtype, random_shape(random, rank, most)}};
    if (rank == 1 || below(random, 2) == 0)
      example.attributes = {{"dim0", random_axis(random, rank)}, {"dim1", random_axis(random, rank)}};
  } else if (op == "permute") {
    example.inputs = {{dtype, random_shape(random, rank, most)}};
    std::vector<std::int64_t> dims(static_cast<std::size_t>(rank));
    std::iota(dims.begin(), dims.end(), 0);
    std::shuffle(dims.begin(), dims.end(), random);
    for (std::int64_t& dim : dims)
      if (below(random, 2) == 0) dim -= rank;
    example.attributes = {{"dims", std::move(dims)}};
  } else if (op == "copy") {
    example.inputs = {{dtype, random_shape(random, rank, most)}};
    if (below(random, 2) == 0) example.attributes = {{"dtype", random_dtype(random)}};
  } else {
    rank = std::max(rank, 1);
    const std::int64_t count = 1 + below(random, below(random, 4) == 0 ? 12 : 3);
    const Dims shape = random_shape(random, rank, most / count);
    const std::int64_t dim = random_axis(random, rank);
    const int axis = static_cast<int>(dim < 0 ? dim + rank : dim);
    for (std::int64_t i = 0; i < count; ++i) {
      example.inputs.push_back({dtype, shape});
      if (below(random, 2) == 0) example.inputs.back().shape[axis] = below(random, shape[axis] + 1);
    }
    example.attributes = {{"dim", dim}};
  }
  return example;
}

}  // namespace kiln::layout
