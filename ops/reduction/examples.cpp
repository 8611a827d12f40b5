#include <algorithm>
#include <cmath>

#include "core/errors.hpp"
#include "ops/common/random_shape.hpp"
#include "ops/reduction/reference.hpp"

namespace kiln::reduction {
namespace {

/// Now and then a size that is split in chunks on a GPU, and one that is on the CPU.
Dims random_shape(std::mt19937_64& random, bool may_be_empty) {
  const bool is_large = random() % 24 == 0;
  return common::random_shape({.most_elements = is_large ? 1'000'000 : 50'000,
                               .may_be_empty = may_be_empty,
                               .has_long_axis = is_large && random() % 2 == 0},
                              random);
}

AttributeValue random_dims(std::mt19937_64& random, int rank, bool one) {
  const auto choice = random() % 4;
  if (choice == 0) return {};
  if (choice == 1 || one) return common::random_axis(rank, random);
  std::vector<std::int64_t> dims;
  for (int i = 0; i < rank; ++i)
    if (random() % 2 == 0) dims.push_back(random() % 2 == 0 ? i : i - rank);
  std::shuffle(dims.begin(), dims.end(), random);
  return dims;
}

}  // namespace

std::vector<Example> make_examples(const OpRow& row) {
  const auto with = [](std::initializer_list<Attributes::Entry> entries) { return Attributes(entries); };
  std::vector<Example> examples = {
      {{{DType::f32, {64, 1000}}}, with({{"dim", std::int64_t{1}}})},
      {{{DType::f32, {64, 1000}}}, with({{"dim", std::int64_t{0}}, {"keepdim", true}})},
      {{{DType::f16, {33, 65}}}, {}},
      {{{DType::f32, {}}}, {}},
      {{{DType::bf16, {17, 5, 129}}}, with({{"dim", std::int64_t{-2}}})},
      {{{DType::f32, {300'000}}}, {}},
      {{{DType::f32, {70, 1, 33}}}, with({{"dim", std::int64_t{1}}})},
  };
  if (!finds_index(row.kind))
    examples.push_back({{{DType::f32, {6, 70, 9}}}, with({{"dim", std::vector<std::int64_t>{0, -1}}})});
  if (takes_dtype(row.kind)) {
    if (row.kind != Kind::norm) examples.push_back({{{DType::i32, {40, 50}}}, with({{"dtype", DType::f32}}), {{1, 3}}});
    examples.push_back({{{DType::f16, {40, 50}}}, with({{"dtype", DType::f64}, {"dim", std::int64_t{1}}})});
  }
  if (row.kind == Kind::norm)
    for (const double p : {0.0, 1.0, 3.0, -1.5, HUGE_VAL, -HUGE_VAL})
      examples.push_back({{{DType::f32, {30, 70}}}, with({{"p", p}, {"dim", std::int64_t{1}}})});
  if (row.kind == Kind::var || row.kind == Kind::std)
    examples.push_back({{{DType::f32, {30, 70}}}, with({{"correction", 0.0}, {"dim", std::int64_t{1}}})});
  return examples;
}

Example random_example(const OpRow& row, const std::vector<DType>& dtypes, std::mt19937_64& random) {
  for (;;) {
    const bool no_neutral =
        finds_index(row.kind) || row.kind == Kind::amax || row.kind == Kind::amin || row.kind == Kind::norm;
    const TensorMeta input{common::one_of(dtypes, random), random_shape(random, !no_neutral || random() % 4 == 0)};
    Example example{{input}, {}};
    example.attributes.set("dim", random_dims(random, input.shape.size(), finds_index(row.kind)));
    example.attributes.set("keepdim", random() % 2 == 0);
    const auto random_float = [&] {
      constexpr DType kFloats[] = {DType::f32, DType::f64, DType::f16, DType::bf16};
      return common::one_of(kFloats, random);
    };
    const bool needs_float = row.kind == Kind::mean || row.kind == Kind::norm;
    if (takes_dtype(row.kind) && (random() % 4 == 0 || (needs_float && !is_floating(input.dtype))))
      example.attributes.set("dtype", needs_float || random() % 2 == 0 ? random_float() : DType::i64);
    // As floats, wild integers of both signs cancel, and their products overflow in one order and not in another.
    if (is_integer(input.dtype) && example.attributes.find("dtype") != nullptr)
      example.ranges = {row.kind == Kind::prod ? InputRange{1, 2} : InputRange{0, 4}};
    // Products of all elements stay within f32 in any order: their logarithms wander and drift by some tens at most.
    // Elements are as far from 1 as that allows: of those within a few roundings of 1 the products all round the same
    // way, and a million of them would lose what the tolerance allows.
    if (row.kind == Kind::prod && is_floating(input.dtype)) {
      const auto elements = static_cast<double>(std::max<std::int64_t>(num_elements(input.shape), 1));
      const double bound = std::min(4.0, 1 + 8 / std::sqrt(elements));
      example.ranges = {{1 / bound, bound}};
    }
    if (row.kind == Kind::norm) {
      constexpr double kExponents[] = {0, 1, 2, 2, 3, 0.5, -1, HUGE_VAL, -HUGE_VAL};
      example.attributes.set("p", common::one_of(kExponents, random));
    }
    if (row.kind == Kind::var || row.kind == Kind::std)
      example.attributes.set("correction", static_cast<double>(random() % 3));
    try {
      Attributes complete = example.attributes;
      if (takes_dtype(row.kind) && complete.find("dtype") == nullptr) complete.set("dtype", AttributeValue());
      resolve(row, dense_view(nullptr, input.dtype, input.shape), complete);
      return example;
    } catch (const UsageError&) {
      continue;  // an extremum of nothing
    }
  }
}

}  // namespace kiln::reduction
