#include "registry/inspection/tensor_statistics.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "tests/support/devices.hpp"
#include "tests/support/guarded_tensor.hpp"
#include "tests/support/matchers.hpp"

namespace kiln::test {
namespace {

/// One element after the other, in the order of the indices.
TensorStatistics naive_statistics(const GuardedTensor& tensor) {
  const TensorView& view = tensor.host_view();
  TensorStatistics statistics;
  statistics.num_elements = view.numel();
  std::vector<long double> finite;
  for_each_element(view, [&](std::int64_t offset) {
    const void* const at = tensor.at(offset);
    if (is_floating(view.dtype)) {
      const double value = read_float(view.dtype, at);
      statistics.num_nan += std::isnan(value);
      statistics.num_inf += std::isinf(value);
      if (std::isfinite(value)) finite.push_back(value);
    } else {
      const std::uint64_t bits = read_integer(view.dtype, at);
      finite.push_back(info(view.dtype).is_signed ? static_cast<long double>(static_cast<std::int64_t>(bits))
                                                  : static_cast<long double>(bits));
    }
  });
  if (finite.empty()) return statistics;
  statistics.min = *std::min_element(finite.begin(), finite.end());
  statistics.max = *std::max_element(finite.begin(), finite.end());
  long double total = 0;
  for (const long double value : finite) total += value;
  statistics.mean = static_cast<double>(total / static_cast<long double>(finite.size()));
  return statistics;
}

void expect_near(const TensorStatistics& got, const TensorStatistics& want, const std::string& what) {
  EXPECT_EQ(got.num_elements, want.num_elements) << what;
  EXPECT_EQ(got.num_nan, want.num_nan) << what;
  EXPECT_EQ(got.num_inf, want.num_inf) << what;
  EXPECT_EQ(got.min, want.min) << what;
  EXPECT_EQ(got.max, want.max) << what;
  const double largest = static_cast<double>(std::max(std::abs(want.min), std::abs(want.max)));
  EXPECT_NEAR(got.mean, want.mean, 1e-12 * largest) << what;
}

TEST(TensorStatisticsTest, AgreesWithOneElementAfterTheOther) {
  std::mt19937_64 random(std::random_device{}());
  std::vector<Device> devices{Device::cpu()};
  if (device_count(DeviceType::cuda) > 0) devices.push_back(Device::cuda());
  const std::vector<Dims> shapes{{}, {1}, {1000}, {7, 33}, {3, 1, 5, 4}, {0, 4}, {4, 0}};
  for (const DType dtype : kAllDTypes)
    for (const Dims& shape : shapes)
      for (const Device device : devices) {
        GuardedTensor tensor(dtype, shape, random_layout(shape, /*allow_zero=*/true, random));
        tensor.fill_random({-4, 4}, /*special=*/true, random);
        expect_near(tensor_statistics(tensor.upload(device)), naive_statistics(tensor),
                    describe(tensor.host_view()) + " on " + to_string(device));
      }
}

TEST(TensorStatisticsTest, ExtremesOf64BitIntegersAreExact) {
  std::vector<std::int64_t> values{std::numeric_limits<std::int64_t>::max(), std::numeric_limits<std::int64_t>::min(),
                                   5};
  const TensorStatistics statistics = tensor_statistics(dense_view(values.data(), DType::i64, {3}));
  EXPECT_EQ(statistics.max, static_cast<long double>(values[0]));
  EXPECT_EQ(statistics.min, static_cast<long double>(values[1]));
  EXPECT_DOUBLE_EQ(statistics.mean, 4.0 / 3);
  EXPECT_THAT(to_string(statistics, DType::i64), HasSubstr("max 9223372036854775807,"));
  std::uint64_t largest = std::numeric_limits<std::uint64_t>::max();
  EXPECT_THAT(to_string(tensor_statistics(dense_view(&largest, DType::u64, {1})), DType::u64),
              HasSubstr("min 18446744073709551615,"));
}

TEST(TensorStatisticsTest, ASumBeyondTheDtypeHasAMean) {
  std::vector<double> values(1000, 1e308);
  EXPECT_DOUBLE_EQ(tensor_statistics(dense_view(values.data(), DType::f64, {1000})).mean, 1e308);
}

TEST(TensorStatisticsTest, AnExpandedTensorIsReadOnce) {
  float value = 0.5F;
  TensorView view = dense_view(&value, DType::f32, {1});
  view.shape = {std::int64_t{1} << 20, std::int64_t{1} << 30};  // a walk would take days
  view.strides = {0, 0};
  const TensorStatistics statistics = tensor_statistics(view);
  EXPECT_EQ(statistics.num_elements, std::int64_t{1} << 50);
  EXPECT_EQ(statistics.mean, 0.5);
}

TEST(TensorStatisticsTest, ALargeTensorOfAGpuIsReadToItsEnd) {
  if (device_count(DeviceType::cuda) == 0) GTEST_SKIP() << device_problem(DeviceType::cuda);
  std::vector<float> values((std::size_t{160} << 20) / sizeof(float) + 3, 2.0F);  // some pieces and a rest
  values[(std::size_t{64} << 20) / sizeof(float)] = NAN;
  values.back() = 7;
  const Tensor tensor =
      to_device(dense_view(values.data(), DType::f32, {static_cast<std::int64_t>(values.size())}), Device::cuda());
  const TensorStatistics statistics = tensor_statistics(tensor);
  EXPECT_EQ(statistics.num_elements, static_cast<std::int64_t>(values.size()));
  EXPECT_EQ(statistics.num_nan, 1);
  EXPECT_EQ(statistics.min, 2);
  EXPECT_EQ(statistics.max, 7);
}

TEST(TensorStatisticsTest, SaysWhatIsThere) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  std::vector<float> values{NAN, kInf, -kInf, 2};
  EXPECT_EQ(to_string(tensor_statistics(dense_view(values.data(), DType::f32, {4})), DType::f32),
            "min 2, max 2, mean 2, 1 NaN, 2 Inf");
  EXPECT_EQ(to_string(tensor_statistics(dense_view(values.data(), DType::f32, {3})), DType::f32),
            "no finite element, 1 NaN, 2 Inf");
  EXPECT_EQ(to_string(tensor_statistics(dense_view(nullptr, DType::f32, {0})), DType::f32), "no elements");
}

}  // namespace
}  // namespace kiln::test
