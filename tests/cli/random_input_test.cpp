#include "registry/inspection/random_input.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <set>

#include "registry/inspection/comparison.hpp"
#include "runtime/memory.hpp"

namespace kiln::cli {
namespace {

Tensor filled(DType dtype, InputRange range, std::uint64_t seed = 3, std::uint64_t stream = 0, std::int64_t n = 4096) {
  Tensor tensor = empty(Dims{n}, dtype, Device::cpu());
  fill_random(tensor, range, seed, stream);
  return tensor;
}

bool same_bytes(const Tensor& a, const Tensor& b) {
  return std::memcmp(a.data(), b.data(), static_cast<std::size_t>(a.numel() * itemsize_bytes(a.dtype()))) == 0;
}

TEST(RandomInputTest, SeedAndStreamDecideTheValues) {
  for (const DType dtype : kAllDTypes) {
    EXPECT_TRUE(same_bytes(filled(dtype, {}), filled(dtype, {}))) << name(dtype);
    EXPECT_FALSE(same_bytes(filled(dtype, {}), filled(dtype, {}, 4))) << name(dtype);
    EXPECT_FALSE(same_bytes(filled(dtype, {}), filled(dtype, {}, 3, 1))) << name(dtype);
  }
}

TEST(RandomInputTest, ALongerTensorStartsLikeAShorterOne) {
  const Tensor longer = filled(DType::f32, {}, 3, 0, 100), shorter = filled(DType::f32, {}, 3, 0, 10);
  EXPECT_EQ(std::memcmp(longer.data(), shorter.data(), 40), 0);
}

TEST(RandomInputTest, ValuesFillTheRange) {
  const Tensor tensor = filled(DType::f32, {-2, 6});
  double sum = 0;
  float low = 6, high = -2;
  for (std::int64_t i = 0; i < tensor.numel(); ++i) {
    const float value = tensor.data_as<float>()[i];
    sum += value;
    low = std::min(low, value);
    high = std::max(high, value);
  }
  EXPECT_GE(low, -2);
  EXPECT_LE(high, 6);
  EXPECT_LT(low, -1.9);
  EXPECT_GT(high, 5.9);
  EXPECT_NEAR(sum / static_cast<double>(tensor.numel()), 2, 0.2);
}

TEST(RandomInputTest, EveryDtypeStaysInTheRange) {
  for (const DType dtype : kAllDTypes) {
    const Tensor tensor = filled(dtype, {0.5, 3.5});
    Tensor zero = empty(tensor.shape(), dtype, Device::cpu());
    std::memset(zero.data(), 0, static_cast<std::size_t>(zero.numel() * itemsize_bytes(dtype)));
    const Comparison against_zero = compare(tensor, zero, {});
    EXPECT_LE(against_zero.max_error, 3.5) << name(dtype);  // the largest magnitude
    EXPECT_GE(against_zero.max_error, 1) << name(dtype);
  }
}

TEST(RandomInputTest, IntegersTakeEveryWholeNumberOfTheRange) {
  const Tensor tensor = filled(DType::i32, {-4, 4});
  EXPECT_EQ(std::set<std::int32_t>(tensor.data_as<std::int32_t>(), tensor.data_as<std::int32_t>() + tensor.numel()),
            (std::set<std::int32_t>{-4, -3, -2, -1, 0, 1, 2, 3, 4}));
  const Tensor unsigned_tensor = filled(DType::u8, {-4, 4});
  EXPECT_EQ(std::set<std::uint8_t>(unsigned_tensor.data_as<std::uint8_t>(),
                                   unsigned_tensor.data_as<std::uint8_t>() + unsigned_tensor.numel()),
            (std::set<std::uint8_t>{0, 1, 2, 3, 4}));
  const Tensor wide = filled(DType::i8, {-1e9, 1e9});
  const std::set<std::int8_t> values(wide.data_as<std::int8_t>(), wide.data_as<std::int8_t>() + wide.numel());
  EXPECT_EQ(values.size(), 256U);
}

TEST(RandomInputTest, EmptyTensorsAreFine) {
  EXPECT_EQ(filled(DType::f32, {}, 3, 0, 0).numel(), 0);
}

}  // namespace
}  // namespace kiln::cli
