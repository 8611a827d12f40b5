#include "ops/layout/examples.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "core/errors.hpp"
#include "ops/common/random_shape.hpp"

namespace kiln::layout {
namespace {

Dims shape_of_rank(int rank, std::int64_t most_elements, std::mt19937_64& random) {
  return common::random_shape({.least_rank = rank, .most_rank = rank, .most_elements = most_elements}, random);
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
  throw InternalError(fmt::format("the layout family has no op '{}'", op));
}

Example random_example_of(std::string_view op, std::mt19937_64& random) {
  const bool large = random() % 12 == 0;  // a GPU transposes few elements without tiles
  const std::int64_t most = large ? 1'000'000 : 40'000;
  int rank = static_cast<int>(common::random_up_to(5, random));
  const DType dtype = common::one_of(kAllDTypes, random);
  Example example;
  if (op == "transpose") {
    rank = std::max(rank, 1);
    example.inputs = {{dtype, shape_of_rank(rank, most, random)}};
    if (rank == 1 || random() % 2 == 0)
      example.attributes = {{"dim0", common::random_axis(rank, random)}, {"dim1", common::random_axis(rank, random)}};
  } else if (op == "permute") {
    example.inputs = {{dtype, shape_of_rank(rank, most, random)}};
    std::vector<std::int64_t> dims(static_cast<std::size_t>(rank));
    std::iota(dims.begin(), dims.end(), 0);
    std::shuffle(dims.begin(), dims.end(), random);
    for (std::int64_t& dim : dims)
      if (random() % 2 == 0) dim -= rank;
    example.attributes = {{"dims", std::move(dims)}};
  } else if (op == "copy") {
    example.inputs = {{dtype, shape_of_rank(rank, most, random)}};
    if (random() % 2 == 0) example.attributes = {{"dtype", common::one_of(kAllDTypes, random)}};
  } else {
    rank = std::max(rank, 1);
    const std::int64_t count = 1 + common::random_up_to(random() % 4 == 0 ? 11 : 2, random);
    const Dims shape = shape_of_rank(rank, most / count, random);
    const std::int64_t dim = common::random_axis(rank, random);
    const int axis = static_cast<int>(dim < 0 ? dim + rank : dim);
    for (std::int64_t i = 0; i < count; ++i) {
      example.inputs.push_back({dtype, shape});
      if (random() % 2 == 0) example.inputs.back().shape[axis] = common::random_up_to(shape[axis], random);
    }
    example.attributes = {{"dim", dim}};
  }
  return example;
}

}  // namespace kiln::layout
