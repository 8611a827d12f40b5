#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "registry/plan/registry.hpp"
#include "tests/registry/op_sweep.hpp"
#include "tests/support/devices.hpp"
#include "tests/support/sweep_amount.hpp"

namespace kiln::test {
namespace {

/// A side of a product: a number that lies around a power of two of these.
std::int64_t large_side(int first_power, std::mt19937_64& random) {
  const auto power = first_power + static_cast<int>(random() % static_cast<unsigned>(11 - first_power));
  return (std::int64_t{1} << power) + static_cast<std::int64_t>(random() % 5) - 2;
}

/// Any small number, or what lies around powers of two.
std::int64_t random_side(std::mt19937_64& random) {
  return random() % 2 == 0 ? 1 + static_cast<std::int64_t>(random() % 40) : large_side(5, random);
}

struct ProductSides {
  std::int64_t m, n, k;
  std::int64_t products() const { return m * n * k; }
};

/// A third of any sides, a third of few rows and a large matrix, a third with much to sum.
ProductSides random_sides(std::mt19937_64& random) {
  switch (random() % 3) {
    case 0:
      return {random_side(random), random_side(random), random_side(random)};
    case 1:
      return {1 + static_cast<std::int64_t>(random() % 10), large_side(8, random), large_side(8, random)};
    default:
      return {random_side(random), random_side(random), large_side(9, random)};
  }
}

/// A product of f32 or f64 of larger matrices than the ops' random examples have, in `linear` or `matmul`, sometimes of
/// a batch of one operand or of both, with addends of every kind and each activation.
std::pair<const char*, Example> random_product(std::mt19937_64& random) {
  // The reference takes some nanoseconds for each multiply-add.
  const std::int64_t most_products = random() % 16 == 0 ? 40'000'000 : 4'000'000;
  ProductSides sides = random_sides(random);
  while (sides.products() > most_products) sides = random_sides(random);
  const auto [m, n, k] = sides;
  const DType dtype = random() % 3 == 0 ? DType::f64 : DType::f32;
  Dims batch;
  if (random() % 4 == 0)
    for (std::int64_t room = most_products / sides.products(); batch.size() < 2 && room > 1;
         room /= batch[batch.size() - 1])
      batch.push_back(1 + static_cast<std::int64_t>(random() % std::min<std::uint64_t>(room, 5)));
  const auto matrix = [&](const Dims& dims, std::int64_t rows, std::int64_t columns) {
    Dims shape = dims;
    shape.push_back(rows);
    shape.push_back(columns);
    return TensorMeta{dtype, shape};
  };
  Attributes attributes;
  if (random() % 2 == 0) {
    constexpr const char* kActivations[] = {"none", "relu", "gelu", "silu"};
    Example example{{matrix(batch, m, k), matrix({}, n, k)}, {}};
    if (random() % 2 == 0) example.inputs.push_back({dtype, {n}});
    example.attributes.set("activation", std::string(kActivations[random() % 4]));
    return {"linear", example};
  }
  Example example{{matrix(broadcast_operand(batch, random), m, k), matrix(broadcast_operand(batch, random), k, n)}, {}};
  if (random() % 3 == 0) {
    example.inputs.push_back({dtype, broadcast_operand({m, n}, random)});
    example.attributes.set("beta", 0.5);
  }
  if (random() % 4 == 0) example.attributes.set("alpha", -0.25);
  return {"matmul", example};
}

/// Products for which kernels differ by shape and layout, of which the sweep of one op makes few. Rows of one number
/// are not among them: rounding errors of so many equal products go one way, and exceed a tolerance that counts on
/// random ones.
TEST(ProductSweep, AgreesWithTheReference) {
  const std::vector<Device> devices = available_devices();
  if (devices.empty()) GTEST_SKIP() << "no target";
  const std::uint64_t seed = sweep_seed();
  SCOPED_TRACE("KILN_TEST_SEED=" + std::to_string(seed));
  for (const Device device : devices) {
    Sweep sweeps[] = {{Registry::process().get("matmul"), device, seed},
                      {Registry::process().get("linear"), device, seed + 1}};
    std::mt19937_64 random(seed);
    for (int i = random_calls(200, 400); i > 0; --i) {
      const auto [op, example] = random_product(random);
      Sweep& sweep = sweeps[std::string_view(op) == "linear" ? 1 : 0];
      if (sweep.done()) break;
      EXPECT_TRUE(sweep.run({.inputs = example.inputs,
                             .attributes = example.attributes,
                             .layouts = random() % 4 != 0 ? Layouts::turned : Layouts::random,
                             .may_repeat = false,
                             .random_config = random() % 6 == 0}))
          << "op " << op << " refuses a product";
    }
    for (const Sweep& sweep : sweeps) sweep.report(seed);
    if (device.is_cuda() || sweeps[0].done()) continue;
    for (const char* variant : {"stream", "inner", "outer", "blocked", "blocked_f64"})
      EXPECT_TRUE(sweeps[0].variants().contains(variant)) << "no product of " << variant;
  }
}

}  // namespace
}  // namespace kiln::test
