#include "registry/tuning/output_comparison.hpp"

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "registry/plan/device_target.hpp"
#include "tests/support/devices.hpp"
#include "tests/support/tensor_values.hpp"

namespace kiln::test {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN(), kInf = std::numeric_limits<double>::infinity();

struct Case {
  const char* description;
  DType dtype;
  Tolerance tolerance;
  std::vector<double> wanted, got;
  int differing;
};

const std::vector<Case>& cases() {
  static const std::vector<Case> all{
      {"equal", DType::f32, {}, {1, -2, 3}, {1, -2, 3}, 0},
      {"one differs", DType::f32, {}, {1, -2, 3}, {1, -2, 3.5}, 1},
      {"twice the absolute tolerance", DType::f32, {0, 0.25}, {0, 0, 0, 0}, {0.5, -0.5, 0.75, -0.75}, 2},
      {"twice the relative one of the element", DType::f64, {0.125, 0}, {64}, {80}, 0},
      {"of the largest element, for all", DType::f64, {0.125, 0}, {64, 0, 0}, {64, 16, 17}, 1},
      {"which is finite", DType::f32, {0.125, 0}, {kInf, kNan, -64, 0, 0}, {kInf, kNan, -64, 16, 17}, 1},
      {"and its own relative part beside", DType::f64, {0.125, 0}, {64, 64}, {96, 97}, 1},
      {"a number in place of NaN", DType::f32, {1, 1}, {kNan, 1}, {1, kNan}, 2},
      {"infinities of two signs", DType::f32, {1, 1}, {kInf, kInf, -kInf}, {kInf, -kInf, 0}, 2},
      {"f16", DType::f16, {0, 0.25}, {1, 1}, {1.5, 1.75}, 1},
      {"bf16", DType::bf16, {0, 0.25}, {1, 1}, {1.5, 1.75}, 1},
      {"fp8e4m3", DType::fp8e4m3, {}, {1, 2}, {1, 4}, 1},
      {"fp8e5m2", DType::fp8e5m2, {}, {1, 2}, {1, 4}, 1},
      {"integers are equal or not", DType::i32, {1, 1}, {1, 2, 3}, {1, 3, 3}, 1},
      {"i64", DType::i64, {}, {9007199254740992., 1}, {9007199254740992., 2}, 1},
      {"u8", DType::u8, {}, {255, 0}, {255, 1}, 1},
      {"bool", DType::bool_, {}, {1, 0, 1}, {1, 1, 0}, 2},
      {"nothing", DType::f32, {}, {}, {}, 0},
  };
  return all;
}

class OutputComparisons : public DevicesTest {};

TEST_F(OutputComparisons, CountWhatDiffers) {
  for (const Device device : devices_)
    for (const Case& of : cases()) {
      SCOPED_TRACE(of.description);
      const auto on_device = [&](const std::vector<double>& values) {
        return to_device(tensor_of_numbers(of.dtype, values), device);
      };
      const OutputComparison comparison(on_device(of.wanted), of.tolerance, target_of(device),
                                        Stream::default_of(device));
      const std::string expected = of.differing == 0
                                       ? ""
                                       : std::to_string(of.differing) + " of " + std::to_string(of.wanted.size()) +
                                             " elements differ from the default's";
      const Tensor wanted = on_device(of.wanted), got = on_device(of.got);
      EXPECT_EQ(comparison.difference(got), expected);
      EXPECT_EQ(comparison.difference(wanted), "");
      EXPECT_EQ(comparison.difference(got), expected) << "each comparison counts anew";
    }
}

TEST_F(OutputComparisons, LookAtEveryElement) {
  for (const Device device : devices_) {
    const Stream stream = Stream::default_of(device);
    std::vector<float> values(3'000'001, 1.0f);  // more than one block for each program, and a part of one
    const OutputComparison comparison(make_f32(values, device), {0, 0.25}, target_of(device), stream);
    for (const std::size_t place : {std::size_t{0}, values.size() / 2, values.size() - 1}) values[place] = 2;
    EXPECT_EQ(comparison.difference(make_f32(values, device)), "3 of 3000001 elements differ from the default's");
  }
}

}  // namespace
}  // namespace kiln::test
