#include "ops/random/examples.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>

#include "ops/common/random_shape.hpp"

namespace kiln::random {
namespace {

using Size = std::vector<std::int64_t>;

double real_between(double low, double high, std::mt19937_64& random) {
  return std::uniform_real_distribution<double>(low, high)(random);
}

Size random_size(std::mt19937_64& random) {
  if (random() % 50 == 0) return {1'000'003};
  const Dims shape = common::random_shape({.most_elements = 50'000}, random);
  return {shape.begin(), shape.end()};
}

std::int64_t random_natural(std::mt19937_64& random) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  constexpr std::int64_t kAwkward[] = {0, 1, (std::int64_t{1} << 32) - 1, (std::int64_t{1} << 32) - 3, kMost};
  return random() % 2 == 0 ? common::one_of(kAwkward, random) : static_cast<std::int64_t>(random() >> 1);
}

/// The smallest and largest integers of `dtype` that an int64 attribute reaches, the latter exclusive.
std::pair<std::int64_t, std::int64_t> integer_bounds(DType dtype) {
  if (dtype == DType::bool_) return {0, 2};
  if (itemsize_bytes(dtype) == 8)
    return {info(dtype).is_signed ? std::numeric_limits<std::int64_t>::min() : 0,
            std::numeric_limits<std::int64_t>::max()};
  const std::int64_t values = std::int64_t{1} << (8 * itemsize_bytes(dtype));
  return info(dtype).is_signed ? std::pair(-values / 2, values / 2) : std::pair(std::int64_t{0}, values);
}

void set_bounds(Attributes& attributes, DType dtype, std::mt19937_64& random) {
  const auto [least, end] = integer_bounds(dtype);
  if (random() % 3 == 0) {
    attributes.set("low", least);
    attributes.set("high", end);
    return;
  }
  const std::int64_t bound = std::min<std::int64_t>(end, 2 + static_cast<std::int64_t>(random() % 100'000));
  attributes.set("low", std::max<std::int64_t>(least, -static_cast<std::int64_t>(random() % 50)));
  attributes.set("high", bound);
}

}  // namespace

std::vector<Example> make_examples(Kind kind) {
  const std::int64_t seed = 42;
  const auto made = [&](Size size, Attributes attributes) {
    attributes.set("size", std::move(size));
    attributes.set("seed", seed);
    return Example{{}, std::move(attributes)};
  };
  switch (kind) {
    case Kind::uniform:
      return {made({1024, 1024}, {}), made({1000, 3}, {{"low", -1.0}, {"high", 1.0}, {"dtype", DType::f64}}),
              made({4097}, {{"dtype", DType::bf16}, {"offset", std::int64_t{1000}}})};
    case Kind::normal:
      return {made({1024, 1024}, {}), made({1000, 3}, {{"mean", 1.0}, {"std", 0.5}, {"dtype", DType::f64}}),
              made({4097}, {{"dtype", DType::f16}})};
    case Kind::randint:
      return {made({1024, 1024}, {{"high", std::int64_t{100}}}),
              made({1000, 3}, {{"low", std::int64_t{-5}}, {"high", std::int64_t{1} << 40}}),
              made({4097}, {{"high", std::int64_t{256}}, {"dtype", DType::u8}})};
    case Kind::bernoulli:
      return {made({1024, 1024}, {}), made({1000, 3}, {{"p", 0.1}, {"dtype", DType::bool_}})};
    case Kind::dropout:
      break;
  }
  return {{{{DType::f32, {1024, 1024}}}, {{"seed", seed}}},
          {{{DType::bf16, {1000, 3}}}, {{"seed", seed}, {"p", 0.1}}},
          {{{DType::f64, {4097}}}, {{"seed", seed}, {"p", 1.0}}}};
}

Example random_example(Kind kind, std::mt19937_64& random) {
  const std::vector<DType> dtypes = dtypes_of(kind);
  const DType dtype = common::one_of(dtypes, random);
  const Size size = random_size(random);
  Example example;
  example.attributes.set("seed", random_natural(random));
  if (random() % 2 == 0) example.attributes.set("offset", random_natural(random));
  if (kind == Kind::dropout) {
    example.inputs = {{dtype, Dims(std::span(size))}};
  } else {
    example.attributes.set("size", size);
    example.attributes.set("dtype", dtype);
  }
  switch (kind) {
    case Kind::uniform:
      if (random() % 2 == 0) {
        const double low = real_between(-4, 4, random);
        example.attributes.set("low", low);
        example.attributes.set("high", low + real_between(1e-3, 4, random));
      }
      break;
    case Kind::normal:
      if (random() % 2 == 0) {
        example.attributes.set("mean", real_between(-4, 4, random));
        example.attributes.set("std", random() % 8 == 0 ? 0.0 : real_between(0, 4, random));
      }
      break;
    case Kind::randint:
      set_bounds(example.attributes, dtype, random);
      break;
    case Kind::bernoulli:
    case Kind::dropout: {
      const double awkward[] = {0.0, 1.0, 0.5, 0x1p-32, real_between(0, 1, random), real_between(0, 1, random)};
      example.attributes.set("p", common::one_of(awkward, random));
      break;
    }
  }
  return example;
}

}  // namespace kiln::random
