// Scans whose lines are cut in chunks: right across the cuts, in place, and the same bits every time.

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "registry/dispatch/dispatch.hpp"
#include "tests/support/devices.hpp"
#include "tests/support/tensor_values.hpp"

namespace kiln::test {
namespace {

class CutScan : public DevicesTest {};

Attributes along(std::int64_t dim) {
  return {{"dim", dim}};
}

TEST_F(CutScan, WholeNumbersAreExact) {
  constexpr std::int64_t kLength = 1'500'007;
  for (const Device device : devices_)
    for (const Dims& shape : {Dims{kLength}, Dims{kLength / 3, 3}}) {
      std::vector<float> x(static_cast<std::size_t>(num_elements(shape)));
      std::mt19937 random(7);
      for (float& value : x) value = static_cast<float>(static_cast<int>(random() % 7) - 3);
      const std::vector<float> out = read_f32(dispatch_gpu_op("cumsum", {make_f32(shape, x, device)}, along(0)));
      const std::size_t lines = shape.size() == 1 ? 1 : 3;
      std::vector<float> running(lines);
      for (std::size_t i = 0; i < x.size(); ++i)
        ASSERT_EQ(out[i], running[i % lines] += x[i]) << to_string(shape) << " element " << i;
    }
}

TEST_F(CutScan, InPlace) {
  constexpr std::int64_t kLength = 300'000;
  for (const Device device : devices_) {
    const Tensor x = make_f32(std::vector<float>(kLength, 1.f), device);
    dispatch_gpu_op("cumsum", {x}, along(0), {.outputs = {{x}}});
    const std::vector<float> out = read_f32(x);
    for (std::size_t i = 0; i < out.size(); ++i) ASSERT_EQ(out[i], static_cast<float>(i + 1));
  }
}

TEST_F(CutScan, NanAndInfinityReachTheRestOfTheirLine) {
  constexpr std::int64_t kLength = 300'000;
  constexpr std::size_t kInfinity = 1000, kNan = 150'000;
  for (const Device device : devices_)
    for (const char* op : {"cumsum", "cumprod"}) {
      std::vector<float> x(2 * kLength, 1.f);
      x[kInfinity] = INFINITY;
      x[kNan] = NAN;
      const std::vector<float> out = read_f32(dispatch_gpu_op(op, {make_f32({2, kLength}, x, device)}, along(1)));
      for (std::size_t i = 0; i < out.size(); ++i) {
        if (i < kInfinity || i >= kLength)
          ASSERT_TRUE(std::isfinite(out[i])) << op << " " << i;
        else if (i < kNan)
          ASSERT_EQ(out[i], INFINITY) << op << " " << i;
        else
          ASSERT_TRUE(std::isnan(out[i])) << op << " " << i;
      }
    }
}

TEST_F(CutScan, RepeatsGiveIdenticalBits) {
  constexpr int kRepeats = 1000;
  std::vector<float> values(70'000);
  std::mt19937_64 random(3);
  std::normal_distribution<float> normal;
  for (float& value : values) value = normal(random);
  for (const Device device : devices_) {
    const Tensor x = make_f32(values, device), out = make_f32(values, device);
    std::vector<float> first;
    for (int i = 0; i < kRepeats; ++i) {
      dispatch_gpu_op("cumsum", {x}, along(0), {.outputs = {{out}}});
      const std::vector<float> got = read_f32(out);
      if (i == 0) first = got;
      ASSERT_EQ(std::memcmp(got.data(), first.data(), got.size() * sizeof(float)), 0) << "repeat " << i;
    }
  }
}

}  // namespace
}  // namespace kiln::test
