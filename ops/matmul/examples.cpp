#include "ops/matmul/examples.hpp"

#include <algorithm>
#include <iterator>

#include "ops/matmul/reference.hpp"

namespace kiln::matmul {
namespace {

/// Multiply-adds of a random call: the reference takes a few nanoseconds for each.
constexpr std::int64_t kMostProducts = 400'000;

DType other_fp8(std::mt19937_64& random) {
  return random() % 2 == 0 ? DType::fp8e4m3 : DType::fp8e5m2;
}

/// Shapes of two operands that go together.
struct Shapes {
  Dims a, b, out;
};

/// `shape` as an operand that broadcasts to it.
Dims broadcast_operand(const Dims& shape, std::mt19937_64& random) {
  Dims operand;
  const auto dropped = random() % 4 == 0 ? static_cast<int>(random() % static_cast<unsigned>(shape.size() + 1)) : 0;
  for (int axis = dropped; axis < shape.size(); ++axis) operand.push_back(random() % 4 == 0 ? 1 : shape[axis]);
  return operand;
}

Shapes random_shapes(std::mt19937_64& random) {
  std::int64_t extents[] = {random_extent(random), random_extent(random), random_extent(random)};
  auto& [m, n, k] = extents;
  while (m * n * k > kMostProducts) {
    std::int64_t& largest = *std::max_element(std::begin(extents), std::end(extents));
    largest = (largest + 1) / 2;
  }
  if (random() % 30 == 0) extents[random() % 3] = 0;
  Shapes shapes;
  const bool a_is_vector = random() % 12 == 0, b_is_vector = random() % 12 == 0;
  Dims batch;
  std::int64_t room = kMostProducts / std::max<std::int64_t>(m * n * k, 1);
  for (auto dims = random() % 4; dims > 0 && room > 1; --dims) {
    const auto extent = static_cast<std::int64_t>(1 + random() % 4);
    batch.push_back(std::min(extent, room));
    room /= extent;
  }
  if (!a_is_vector) shapes.a = broadcast_operand(batch, random);
  if (!b_is_vector) shapes.b = broadcast_operand(batch, random);
  const Dims batches[] = {shapes.a, shapes.b};
  shapes.out = broadcast_shapes(batches);
  if (!a_is_vector) {
    shapes.a.push_back(m);
    shapes.out.push_back(m);
  }
  shapes.a.push_back(k);
  shapes.b.push_back(k);
  if (!b_is_vector) {
    shapes.b.push_back(n);
    shapes.out.push_back(n);
  }
  return shapes;
}

}  // namespace

std::int64_t random_extent(std::mt19937_64& random) {
  constexpr std::int64_t kExtents[] = {1,   1,   2,   3,   5,   7,   8,   13,  15,  16,  17,
                                       24,  31,  32,  33,  48,  63,  64,  65,  96,  100, 127,
                                       128, 129, 160, 200, 255, 256, 257, 300, 384, 500, kMostTestedK};
  return kExtents[random() % std::size(kExtents)];
}

DType random_operand_dtype(std::mt19937_64& random) {
  constexpr DType kDTypes[] = {DType::f32,  DType::f32,     DType::f16,     DType::f16, DType::bf16,
                               DType::bf16, DType::fp8e4m3, DType::fp8e5m2, DType::i8,  DType::f64};
  return kDTypes[random() % std::size(kDTypes)];
}

std::vector<InputRange> operand_ranges(DType operands) {
  if (!is_fp8(operands)) return {};
  return {{-0.125, 0.125}, {-0.125, 0.125}};
}

AttributeValue random_out_dtype(std::mt19937_64& random, DType operands) {
  if (random() % 3 != 0) return {};
  if (operands == DType::f64) return random() % 2 == 0 ? DType::f64 : DType::f32;
  constexpr DType kDTypes[] = {DType::f32, DType::f16, DType::bf16};
  return kDTypes[random() % std::size(kDTypes)];
}

std::vector<Example> matmul_examples() {
  const auto with = [](std::initializer_list<Attributes::Entry> entries) { return Attributes(entries); };
  return {
      {{{DType::f32, {160, 96}}, {DType::f32, {96, 144}}}, {}},
      {{{DType::bf16, {128, 256}}, {DType::bf16, {256, 192}}}, {}},
      {{{DType::f16, {2, 1, 33, 65}}, {DType::f16, {3, 65, 17}}}, {}},
      {{{DType::f64, {40, 30}}, {DType::f64, {30, 20}}}, {}},
      {{{DType::i8, {65, 64}}, {DType::i8, {64, 33}}}, {}},
      {{{DType::fp8e4m3, {64, 96}}, {DType::fp8e5m2, {96, 32}}},
       with({{"out_dtype", DType::f32}}),
       operand_ranges(DType::fp8e4m3)},
      {{{DType::f32, {300}}, {DType::f32, {300}}}, {}},
      {{{DType::f32, {5, 30, 40}}, {DType::f32, {40}}}, {}},
      {{{DType::bf16, {70, 50}}, {DType::bf16, {50, 60}}, {DType::bf16, {60}}}, with({{"alpha", 0.5}, {"beta", 2.0}})},
      {{{DType::f32, {16, 500}}, {DType::f32, {500, 24}}, {DType::f32, {16, 1}}}, with({{"alpha", -1.5}})},
      {{{DType::f32, {33, 0}}, {DType::f32, {0, 20}}, {DType::f32, {33, 20}}}, with({{"beta", 0.5}})},
      {{{DType::f32, {130, 70}}, {DType::f32, {70, 140}}}, with({{"num_sms", std::int64_t{3}}})},
  };
}

Example random_matmul_example(std::mt19937_64& random) {
  const DType dtype = random_operand_dtype(random);
  const Shapes shapes = random_shapes(random);
  Example example{
      {{dtype, shapes.a}, {is_fp8(dtype) ? other_fp8(random) : dtype, shapes.b}}, {}, operand_ranges(dtype)};
  const AttributeValue out = random_out_dtype(random, dtype);
  if (const auto* given = std::get_if<DType>(&out)) example.attributes.set("out_dtype", *given);
  // Whole numbers where the result is one.
  constexpr double kFactors[] = {1, 1, -1, 2, 0.5, 0.25};
  const auto factor = [&] { return kFactors[random() % (dtype == DType::i8 ? 4 : std::size(kFactors))]; };
  if (random() % 3 == 0) example.attributes.set("alpha", factor());
  if (random() % 3 == 0) {
    const auto* given = std::get_if<DType>(&out);
    const DType narrow = is_fp8(dtype) ? DType::bf16 : dtype == DType::i8 ? DType::i32 : dtype;
    const DType result = given != nullptr ? *given : narrow;
    example.inputs.push_back(
        {is_floating(result) && random() % 4 == 0 ? DType::f32 : result, broadcast_operand(shapes.out, random)});
    if (random() % 2 == 0) example.attributes.set("beta", random() % 5 == 0 ? 0.0 : factor());
  }
  if (random() % 8 == 0) example.attributes.set("num_sms", static_cast<std::int64_t>(1 + random() % 8));
  return example;
}

std::vector<Example> scaled_matmul_examples() {
  const TensorMeta scale{DType::f32, {}};
  return {
      {{{DType::fp8e4m3, {128, 256}}, {DType::fp8e4m3, {256, 64}}, scale, scale}, {}, operand_ranges(DType::fp8e4m3)},
      {{{DType::fp8e5m2, {17, 100}}, {DType::fp8e4m3, {100, 33}}, scale, {DType::f32, {1}}},
       {{"out_dtype", DType::f16}},
       operand_ranges(DType::fp8e4m3)},
  };
}

Example random_scaled_matmul_example(std::mt19937_64& random) {
  const Shapes shapes = random_shapes(random);
  Example example{{{other_fp8(random), shapes.a},
                   {other_fp8(random), shapes.b},
                   {DType::f32, random() % 2 == 0 ? Dims{} : Dims{1}},
                   {DType::f32, random() % 2 == 0 ? Dims{} : Dims{1, 1}}},
                  {},
                  operand_ranges(DType::fp8e4m3)};
  const AttributeValue out = random_out_dtype(random, DType::fp8e4m3);
  if (const auto* given = std::get_if<DType>(&out)) example.attributes.set("out_dtype", *given);
  return example;
}

}  // namespace kiln::matmul
