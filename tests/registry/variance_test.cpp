// How far var and std are off where the mean is large beside the deviation: no further than their documentation says.

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "registry/dispatch/dispatch.hpp"
#include "registry/plan/registry.hpp"
#include "tests/support/devices.hpp"
#include "tests/support/matchers.hpp"
#include "tests/support/tensor_values.hpp"

namespace kiln::test {
namespace {

class Variance : public DevicesTest {};

/// Normal numbers of deviation 1 about `mean`; `outlier`: the first one lies that much further out.
template <typename T>
Tensor numbers(const Dims& shape, DType dtype, double mean, double outlier) {
  const Tensor x = empty(shape, dtype, Device::cpu());
  std::mt19937_64 random(11);
  std::normal_distribution<double> normal(mean);
  for (std::int64_t i = 0; i < x.numel(); ++i) x.data_as<T>()[i] = static_cast<T>(normal(random));
  x.data_as<T>()[0] += static_cast<T>(outlier);
  return x;
}

/// The largest relative error of `op` along `attributes`, of numbers as T. The reference computes in long double.
template <typename T>
double largest_error(const char* op, const Tensor& x, const Attributes& attributes, Device device,
                     const Config* config = nullptr) {
  const OpSpec& spec = Registry::process().get(op);
  const Tensor made =
      to_device(dispatch_gpu_op(op, {to_device(x, device)}, attributes, {.config = config}), Device::cpu());
  Attributes complete = attributes;
  for (const AttributeSpec& attribute : spec.attributes)
    if (complete.find(attribute.name) == nullptr) complete.set(attribute.name, attribute.fallback);
  const Tensor expected = empty(made.shape(), made.dtype(), Device::cpu());
  const TensorView input = x, output = expected;
  spec.reference({std::span(&input, 1), {&output, 1}, complete});
  double largest = 0;
  for (std::int64_t i = 0; i < made.numel(); ++i) {
    const double want = static_cast<double>(expected.data_as<T>()[i]);
    const double error = std::abs(static_cast<double>(made.data_as<T>()[i]) - want) / want;
    largest = std::isfinite(error) ? std::max(largest, error) : HUGE_VAL;
  }
  return largest;
}

TEST_F(Variance, KeepsItsBoundHoweverFarTheMeanIs) {
  // Rows and columns, short, long enough to be split, and of a width that is no multiple of a vector.
  const std::vector<Dims> shapes = {{1 << 18}, {500, 1000}, {3, 100'003}, {50'003, 7}, {3, 1000, 33}, {64, 17}};
  struct Numbers {
    double mean, outlier;
  };
  for (const Dims& shape : shapes)
    for (const auto [mean, outlier] : {Numbers{0, 0}, {1e4, 0}, {-1e4, 1e5}, {1e6, 0}, {0, 1e5}}) {
      const Tensor x = numbers<float>(shape, DType::f32, mean, outlier);
      for (int dim = -1; dim < shape.size(); ++dim) {
        if (dim >= 0 && shape[dim] < 16) continue;  // numbers of which hardly any bit is left say nothing
        Attributes attributes;
        if (dim >= 0) attributes.set("dim", std::int64_t{dim});
        for (const Device device : devices_)
          for (const char* op : {"var", "std"}) {
            SCOPED_TRACE(std::string(op) + " of " + to_string(shape) + " along " + std::to_string(dim) + " on " +
                         to_string(device) + ", mean " + std::to_string(mean) + ", outlier " + std::to_string(outlier));
            EXPECT_LE(largest_error<float>(op, x, attributes, device), 0x1p-16);
          }
      }
    }
}

TEST_F(Variance, KeepsItsBoundWhereFewLanesAddUpEqualNumbers) {
  std::vector<float> row(8), rows;
  std::mt19937_64 random(3);
  for (const std::int64_t lanes : {1, 2, 4}) {
    const Config config{{"BLOCK_M", 64 / lanes}, {"BLOCK_N", lanes}, {"UNROLL", 1}, {"PROGRAMS", 256}};
    for (int draw = 0; draw < 10; ++draw) {
      for (float& number : row) number = std::uniform_real_distribution<float>(-4, 4)(random);
      rows.clear();
      for (int i = 0; i < 2560; ++i) rows.insert(rows.end(), row.begin(), row.end());
      const Tensor x = make_f32({2560, 8}, rows, Device::cpu());
      for (const Device device : devices_) {
        if (device.is_cuda()) continue;  // its configs are others
        EXPECT_LE(largest_error<float>("var", x, {}, device, &config), 0x1p-16) << lanes;
      }
    }
  }
}

TEST_F(Variance, KeepsItsBoundInDouble) {
  for (const Device device : devices_)
    for (const Dims& shape : {Dims{300'000}, Dims{500, 300}})
      for (const double mean : {0.0, 1e6, 1e12})
        for (const char* op : {"var", "std"}) {
          SCOPED_TRACE(std::string(op) + " of " + to_string(shape) + " on " + to_string(device) + ", mean " +
                       std::to_string(mean));
          EXPECT_LE(largest_error<double>(op, numbers<double>(shape, DType::f64, mean, 0), {{"dim", std::int64_t{0}}},
                                          device),
                    0x1p-45);
        }
}

TEST_F(Variance, EqualNumbersHaveNone) {
  for (const Device device : devices_)
    for (const float value : {0.0f, 1e-30f, 12345.678f, -3e38f}) {
      const Tensor x = make_f32({1000, 33}, std::vector<float>(33'000, value), device);
      for (const char* op : {"var", "std"})
        for (const std::int64_t dim : {0, 1})
          EXPECT_THAT(read_f32(dispatch_gpu_op(op, {x}, {{"dim", dim}})), Each(0.0f)) << value;
    }
}

}  // namespace
}  // namespace kiln::test
