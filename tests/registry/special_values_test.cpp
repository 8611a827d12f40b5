#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "registry/dispatch/dispatch.hpp"
#include "tests/support/devices.hpp"
#include "tests/support/tensor_values.hpp"

namespace kiln::test {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

/// Equal with the same sign, zeros too, or both NaN.
void expect_same(const std::vector<float>& actual, const std::vector<float>& expected, const char* op) {
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (std::isnan(expected[i])) {
      EXPECT_TRUE(std::isnan(actual[i])) << op << " of element " << i << ": " << actual[i];
    } else {
      EXPECT_EQ(actual[i], expected[i]) << op << " of element " << i;
      EXPECT_EQ(std::signbit(actual[i]), std::signbit(expected[i])) << op << " of element " << i;
    }
  }
}

// The expected values are NumPy's.

TEST(SpecialValues, OfOneOperand) {
  for (const Device device : available_devices()) {
    const Tensor x = make_f32({0.f, -0.f, 0.5f, -0.5f, 1.5f, 2.5f, -3.f, kInf, -kInf, kNan}, device);
    expect_same(read_f32(dispatch_gpu_op("sign", {x})), {0, 0, 1, -1, 1, 1, -1, 1, -1, kNan}, "sign");
    expect_same(read_f32(dispatch_gpu_op("round", {x})), {0, -0.f, 0, -0.f, 2, 2, -3, kInf, -kInf, kNan}, "round");
    expect_same(read_f32(dispatch_gpu_op("neg", {x})), {-0.f, 0, -0.5f, 0.5f, -1.5f, -2.5f, 3, -kInf, kInf, kNan},
                "neg");
  }
}

TEST(SpecialValues, OfFloorDivisionAndRemainder) {
  for (const Device device : available_devices()) {
    const Tensor x = make_f32({1, -1, 1, -1, -0.f, 0, 1, -1, kInf, kNan, 7, -7, -1e-30f}, device);
    const Tensor y = make_f32({kInf, kInf, -kInf, -kInf, 1, 0, 0, 0, 2, 1, -2, 2, 3}, device);
    expect_same(read_f32(dispatch_gpu_op("floor_div", {x, y})),
                {0, -1, -1, 0, -0.f, kNan, kInf, -kInf, kNan, kNan, -4, -4, -1}, "floor_div");
    expect_same(read_f32(dispatch_gpu_op("remainder", {x, y})),
                {1, kInf, -kInf, -1, 0, kNan, kNan, kNan, kNan, kNan, -1, 1, 3}, "remainder");
  }
}

TEST(SpecialValues, OfNanBounds) {
  for (const Device device : available_devices()) {
    const Tensor x = make_f32({1, kNan, -kInf}, device);
    const double nan = std::numeric_limits<double>::quiet_NaN();
    expect_same(read_f32(dispatch_gpu_op("clamp", {x}, {{"min", nan}})), {kNan, kNan, kNan}, "clamp");
    expect_same(read_f32(dispatch_gpu_op("clamp", {x}, {{"min", 0.0}, {"max", 2.0}})), {1, kNan, 0}, "clamp");
    expect_same(read_f32(dispatch_gpu_op("clamp", {x}, {{"min", 5.0}, {"max", 2.0}})), {2, kNan, 2}, "clamp");
  }
}

}  // namespace
}  // namespace kiln::test
