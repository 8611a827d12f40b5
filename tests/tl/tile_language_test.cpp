#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <numeric>
#include <random>
#include <vector>

#include "compiler/compilers.hpp"
#include "core/errors.hpp"
#include "core/float_formats.hpp"
#include "runtime/device_info.hpp"
#include "runtime/kernel.hpp"
#include "runtime/memory.hpp"
#include "tests/support/devices.hpp"
#include "tests/support/tensor_values.hpp"
#include "tests/tl/text_kernel.hpp"

namespace kiln::test {
namespace {

std::string kernels() {
  // The tests also run from a copied tree on a machine with a GPU: there, from the root.
  std::ifstream file(std::string(KILN_TEST_SOURCE_DIR) + "/tl/tile_kernels.hpp");
  if (!file) file.open("tests/tl/tile_kernels.hpp");
  if (!file) throw InternalError("tests/tl/tile_kernels.hpp was not found: run from the root of the tree");
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Compiles tile_kernels::<name> and runs it on `device` over copies of `tensors`, which are read back.
void run(const std::string& name, std::vector<TemplateArgument> arguments, Device device,
         std::array<std::int64_t, 3> grid, std::vector<Tensor>& tensors, const std::vector<std::int64_t>& numbers,
         std::int32_t num_warps = 4) {
  TextKernel{"tests/tl/tile_kernels.hpp", kernels(), "tile_kernels::" + name, std::move(arguments), num_warps}.run(
      device, grid, tensors, numbers);
}

template <typename T>
constexpr DType dtype_of() {
  if constexpr (std::is_same_v<T, float>) return DType::f32;
  if constexpr (std::is_same_v<T, double>) return DType::f64;
  if constexpr (std::is_same_v<T, std::int64_t>) return DType::i64;
  if constexpr (std::is_same_v<T, std::int32_t>) return DType::i32;
  if constexpr (std::is_same_v<T, std::int8_t>) return DType::i8;
  if constexpr (std::is_same_v<T, std::uint8_t>) return DType::u8;
}

template <typename T>
Tensor make(const std::vector<T>& values) {
  return tensor_of(dtype_of<T>(), values);
}

template <typename T>
std::vector<T> random_values(std::size_t count, std::mt19937& random) {
  std::vector<T> values(count);
  if constexpr (std::is_floating_point_v<T>) {
    std::uniform_real_distribution<T> draw(T(-4), T(4));
    for (T& value : values) value = draw(random);
  } else {
    std::uniform_int_distribution<int> draw(std::is_signed_v<T> ? -100 : 0, 100);
    for (T& value : values) value = static_cast<T>(draw(random));
  }
  return values;
}

class TileLanguage : public testing::TestWithParam<Device> {
 protected:
  std::mt19937 random_{std::random_device{}()};
};

template <typename T>
void check_reductions(Device device, std::mt19937& random, int m, int n, int axis, int num_warps) {
  SCOPED_TRACE(testing::Message() << m << "x" << n << " axis " << axis << " num_warps " << num_warps << " "
                                  << name(dtype_of<T>()));
  const auto x = random_values<T>(static_cast<std::size_t>(m * n), random);
  const int length = axis == 1 ? m : n;
  std::vector<Tensor> tensors{make(x), make(std::vector<T>(static_cast<std::size_t>(3 * length), T(77)))};
  run("reduce_axis_kernel", {dtype_of<T>(), std::int64_t{m}, std::int64_t{n}, std::int64_t{axis}}, device, {1, 1, 1},
      tensors, {}, num_warps);
  for (int place = 0; place < length; ++place) {
    double sum = 0, magnitude = 0;
    T largest{}, smallest{};
    for (int k = 0; k < (axis == 1 ? n : m); ++k) {
      const T value =
          axis == 1 ? x[static_cast<std::size_t>(place * n + k)] : x[static_cast<std::size_t>(k * n + place)];
      sum += static_cast<double>(value);
      magnitude += std::abs(static_cast<double>(value));
      largest = k == 0 ? value : std::max(largest, value);
      smallest = k == 0 ? value : std::min(smallest, value);
    }
    const T* out = tensors[1].data_as<T>();
    if constexpr (std::is_floating_point_v<T>) {
      ASSERT_NEAR(out[place], sum, 1e-6 * magnitude + 1e-6) << place;
    } else {
      ASSERT_EQ(out[place], static_cast<T>(static_cast<std::int64_t>(sum))) << place;
    }
    ASSERT_EQ(out[length + place], largest) << place;
    ASSERT_EQ(out[2 * length + place], smallest) << place;
  }
}

TEST_P(TileLanguage, ReducesAlongEachAxis) {
  const int shapes[][2] = {{1, 64}, {4, 4}, {2, 8}, {16, 16}, {64, 2}, {128, 1}, {8, 256}, {2, 2048}, {32, 64}};
  for (const auto& shape : shapes)
    for (const int axis : {0, 1})
      for (const int num_warps : GetParam().is_cuda() ? std::vector<int>{1, 4, 8} : std::vector<int>{4})
        check_reductions<float>(GetParam(), random_, shape[0], shape[1], axis, num_warps);
  check_reductions<double>(GetParam(), random_, 16, 64, 1, 4);
  check_reductions<std::int64_t>(GetParam(), random_, 16, 64, 0, 4);
  check_reductions<std::int32_t>(GetParam(), random_, 8, 32, 1, 2);
}

TEST_P(TileLanguage, ReducesWhatAReductionLeft) {
  constexpr std::int64_t kM = 8, kN = 64;
  std::vector<float> x(kM * kN), columns(kN), rows(kM);
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = static_cast<float>(random_() % 100);  // whole numbers: every order of summing is exact
    columns[i % kN] += x[i];
    rows[i / kN] += x[i];
  }
  std::vector<Tensor> tensors{make(x), make(std::vector<float>(2 + kM, 77.f))};
  run("reduce_twice_kernel", {DType::f32, kM, kN}, GetParam(), {1, 1, 1}, tensors, {});
  const float* out = tensors[1].data_as<float>();
  EXPECT_EQ(out[0], *std::max_element(columns.begin(), columns.end()));
  EXPECT_EQ(out[1], std::accumulate(rows.begin(), rows.end(), 0.f));
  for (std::size_t row = 0; row < rows.size(); ++row) EXPECT_EQ(out[2 + row], 3 * rows[row]) << row;
}

TEST_P(TileLanguage, ReducesAll) {
  for (const int n : {1, 63, 64, 200, 256}) {
    const auto x = random_values<float>(static_cast<std::size_t>(n), random_);
    std::vector<Tensor> tensors{make(x), make(std::vector<float>(3, 77.f))};
    run("reduce_all_kernel", {DType::f32, std::int64_t{256}}, GetParam(), {1, 1, 1}, tensors, {n});
    const float* out = tensors[1].data_as<float>();
    EXPECT_NEAR(out[0], std::accumulate(x.begin(), x.end(), 0.0), 1e-3) << n;
    EXPECT_EQ(out[1], *std::max_element(x.begin(), x.end())) << n;
    EXPECT_EQ(out[2], *std::min_element(x.begin(), x.end())) << n;
  }
  std::vector<float> x(100, 1.f);
  x[57] = NAN;
  std::vector<Tensor> tensors{make(x), make(std::vector<float>(3, 77.f))};
  run("reduce_all_kernel", {DType::f32, std::int64_t{128}}, GetParam(), {1, 1, 1}, tensors, {100});
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(std::isnan(tensors[1].data_as<float>()[i])) << i;
}

TEST_P(TileLanguage, SoftmaxOfTheManual) {
  constexpr int kRows = 7, kColumns = 100, kStride = 113;
  const auto x = random_values<float>(kRows * kStride, random_);
  std::vector<Tensor> tensors{make(x), make(std::vector<float>(x.size(), 77.f))};
  run("softmax_kernel", {DType::f32, std::int64_t{128}}, GetParam(), {kRows, 1, 1}, tensors, {kColumns, kStride});
  for (int row = 0; row < kRows; ++row) {
    double sum = 0;
    for (int column = 0; column < kColumns; ++column) sum += std::exp(static_cast<double>(x[row * kStride + column]));
    for (int column = 0; column < kStride; ++column) {
      const float out = tensors[1].data_as<float>()[row * kStride + column];
      if (column < kColumns) {
        ASSERT_NEAR(out, std::exp(static_cast<double>(x[row * kStride + column])) / sum, 1e-6);
      } else if (row + 1 < kRows) {
        ASSERT_EQ(out, 77.f);
      }
    }
  }
}

TEST_P(TileLanguage, BroadcastsOneDimensionalTiles) {
  constexpr int kM = 13, kN = 30;
  std::vector<float> x(kM * kN), column = random_values<float>(kM, random_), row = random_values<float>(kN, random_);
  for (float& value : x) value = 1.f + static_cast<float>(random_() % 100) / 10.f;
  std::vector<Tensor> tensors{make(x), make(column), make(row), make(std::vector<float>(x.size(), 77.f))};
  run("broadcast_kernel", {DType::f32, std::int64_t{8}, std::int64_t{32}}, GetParam(), {2, 1, 1}, tensors, {kM, kN});
  for (int i = 0; i < kM; ++i) {
    double sum = 0;
    for (int j = 0; j < kN; ++j) sum += x[i * kN + j];
    for (int j = 0; j < kN; ++j)
      ASSERT_NEAR(tensors[3].data_as<float>()[i * kN + j], x[i * kN + j] / sum + double(column[i]) * row[j], 1e-5)
          << i << "," << j;
  }
}

TEST_P(TileLanguage, MasksOfEveryKind) {
  constexpr int kN = 1000, kHigh = 900, kSkipped = 33;
  const auto x = random_values<float>(kN, random_);
  std::vector<Tensor> tensors{make(x), make(std::vector<float>(kN, 77.f))};
  run("mask_kernel", {DType::f32, std::int64_t{256}}, GetParam(), {4, 1, 1}, tensors, {kN, kHigh, kSkipped});
  for (int i = 0; i < kN; ++i) {
    const bool chosen = (i % 3 == 0 || i >= kHigh) && i != kSkipped;
    ASSERT_EQ(tensors[1].data_as<float>()[i], chosen ? x[static_cast<std::size_t>(i)] : 77.f) << i;
  }
}

TEST_P(TileLanguage, BoundsUpToTheLimits) {
  constexpr std::int64_t kMin = INT64_MIN, kMax = INT64_MAX, kCount = 8;
  for (const std::int64_t kind : {0, 1})
    for (const std::int64_t base : {std::int64_t{0}, std::int64_t{-3}, std::int64_t{5}, std::int64_t{1} << 40})
      for (const std::int64_t bound : {kMin, kMin + 1, kMin + 5, std::int64_t{-3}, std::int64_t{0}, std::int64_t{4},
                                       (std::int64_t{1} << 40) + 3, kMax - 5, kMax - 1, kMax}) {
        std::vector<Tensor> tensors{make(std::vector<std::int32_t>(5 * kCount, 77))};
        run("bounds_kernel", {kind, kCount}, GetParam(), {1, 1, 1}, tensors, {base, bound, 1});
        for (std::int64_t k = 0; k < kCount; ++k) {
          const std::int64_t value = base + k;
          const bool expected[] = {value<bound, value <= bound, value> bound, value >= bound,
                                   bound < 0 || value < bound};
          for (int c = 0; c < 5; ++c)
            ASSERT_EQ(tensors[0].data_as<std::int32_t>()[5 * k + c], expected[c] ? 1 : 77)
                << "kind " << kind << ": " << value << " with " << bound << ", comparison " << c;
        }
      }
}

TEST_P(TileLanguage, OneIndexBroadcasts) {
  constexpr std::int64_t kM = 4, kN = 8;
  const auto x = random_values<float>(kM * kN, random_);
  std::vector<Tensor> tensors{make(x), make(std::vector<float>(2 * kM * kN, 77.f))};
  run("one_element_kernel", {DType::f32, kM, kN}, GetParam(), {1, 1, 1}, tensors, {});
  for (std::size_t i = 0; i < x.size(); ++i) EXPECT_EQ(tensors[1].data_as<float>()[i], x[i]) << i;
}

template <typename T>
void check_integers_beside_tiles(Device device, const std::vector<T>& x, std::int64_t factor, std::int64_t bound) {
  const auto n = static_cast<std::int64_t>(x.size());
  std::vector<Tensor> tensors{make(x), make(std::vector<std::int64_t>(3 * x.size(), 77))};
  run("scalar_kernel", {dtype_of<T>(), n}, device, {1, 1, 1}, tensors, {factor, bound});
  const std::int64_t* out = tensors[1].data_as<std::int64_t>();
  for (std::int64_t i = 0; i < n; ++i) {
    const std::int64_t value = x[static_cast<std::size_t>(i)];
    EXPECT_EQ(out[i], value * factor) << value;
    EXPECT_EQ(out[n + i], value < bound) << value;
    EXPECT_EQ(out[2 * n + i], value < 1000) << value;
  }
}

TEST_P(TileLanguage, IntegersBesideNarrowerTiles) {
  check_integers_beside_tiles<std::int32_t>(GetParam(), {0, -1, 70000, INT32_MAX}, 100000, std::int64_t{3} << 30);
  check_integers_beside_tiles<std::int8_t>(GetParam(), {-128, -1, 3, 127}, 300, 384);
  check_integers_beside_tiles<std::uint8_t>(GetParam(), {0, 1, 200, 255}, -7, -1);
}

TEST_P(TileLanguage, ComputedAndNegativeOffsets) {
  constexpr int kN = 777;
  const auto x = random_values<float>(kN, random_);
  std::vector<std::int32_t> indices(kN);
  std::iota(indices.begin(), indices.end(), 0);
  std::shuffle(indices.begin(), indices.end(), random_);
  std::vector<Tensor> tensors{make(x), make(indices), make(std::vector<float>(kN, 77.f))};
  run("permute_kernel", {DType::f32, std::int64_t{256}}, GetParam(), {4, 1, 1}, tensors, {kN});
  for (int i = 0; i < kN; ++i)
    ASSERT_EQ(tensors[2].data_as<float>()[indices[static_cast<std::size_t>(i)]],
              x[static_cast<std::size_t>(kN - 1 - i)]);
}

TEST_P(TileLanguage, RuntimeStrides) {
  constexpr int kM = 21, kN = 50;
  const auto x = random_values<float>(kM * kN * 2, random_);
  std::vector<Tensor> tensors{make(x), make(std::vector<float>(kM * kN, 77.f))};
  run("strided_kernel", {DType::f32, std::int64_t{8}, std::int64_t{32}}, GetParam(), {2, 3, 1}, tensors,
      {kM, kN, 2, kM * 2});
  for (int i = 0; i < kM; ++i)
    for (int j = 0; j < kN; ++j)
      ASSERT_EQ(tensors[1].data_as<float>()[i * kN + j], x[static_cast<std::size_t>(i * 2 + j * kM * 2)]);
}

TEST_P(TileLanguage, IntegerDivisionIsTotal) {
  const std::vector<std::int32_t> x{7, -7, 7, -7, 0, INT32_MIN, INT32_MIN, 5, INT32_MAX};
  const std::vector<std::int32_t> y{2, 2, -2, -2, 0, -1, 0, 0, -1};
  const std::vector<std::int32_t> quotient{3, -3, -3, 3, 0, INT32_MIN, 0, 0, -INT32_MAX},
      remainder{1, -1, 1, -1, 0, 0, 0, 0, 0};
  std::vector<Tensor> tensors{make(x), make(y), make(std::vector<std::int32_t>(9, 77)),
                              make(std::vector<std::int32_t>(9, 77))};
  run("divide_kernel", {DType::i32, std::int64_t{64}}, GetParam(), {1, 1, 1}, tensors, {9});
  for (std::size_t i = 0; i < 9; ++i) {
    EXPECT_EQ(tensors[2].data_as<std::int32_t>()[i], quotient[i]) << i;
    EXPECT_EQ(tensors[3].data_as<std::int32_t>()[i], remainder[i]) << i;
  }
}

TEST_P(TileLanguage, CastsSaturateTruncateAndRound) {
  const std::vector<float> x{0.f,      -0.9f, 1.9f, -1.9f, 127.f,        128.f, -128.9f, -129.f,  300.f,  -INFINITY,
                             INFINITY, NAN,   3e9f, -3e9f, 2147483648.f, 1e30f, 448.f,   65504.f, 65520.f};
  const std::int64_t n = static_cast<std::int64_t>(x.size());
  {
    std::vector<Tensor> tensors{make(x), make(std::vector<std::int8_t>(x.size(), 77))};
    run("cast_kernel", {DType::f32, DType::i8, std::int64_t{64}}, GetParam(), {1, 1, 1}, tensors, {n});
    const std::int8_t expected[] = {0,   0, 1,   -1,   127, 127, -128, -128, 127, -128,
                                    127, 0, 127, -128, 127, 127, 127,  127,  127};
    for (std::size_t i = 0; i < x.size(); ++i) EXPECT_EQ(tensors[1].data_as<std::int8_t>()[i], expected[i]) << x[i];
  }
  {
    std::vector<Tensor> tensors{make(x), make(std::vector<std::int64_t>(x.size(), 77))};
    run("cast_kernel", {DType::f32, DType::i64, std::int64_t{64}}, GetParam(), {1, 1, 1}, tensors, {n});
    for (std::size_t i = 0; i < x.size(); ++i) {
      const std::int64_t expected = std::isnan(x[i])   ? 0
                                    : x[i] >= 9.3e18f  ? INT64_MAX
                                    : x[i] <= -9.3e18f ? INT64_MIN
                                                       : static_cast<std::int64_t>(x[i]);
      EXPECT_EQ(tensors[1].data_as<std::int64_t>()[i], expected) << x[i];
    }
  }
  for (const DType narrow : {DType::f16, DType::bf16, DType::fp8e4m3, DType::fp8e5m2}) {
    std::vector<float> all = x;
    for (int i = 0; i < 3000; ++i) {
      const auto bits = static_cast<std::uint32_t>(random_());
      float value;
      std::memcpy(&value, &bits, 4);
      all.push_back(i % 2 == 0 ? value : std::ldexp(1.f + static_cast<float>(bits >> 9) * 0x1p-23f, i % 40 - 24));
    }
    const std::int64_t count = static_cast<std::int64_t>(all.size());
    std::vector<Tensor> tensors{make(all), empty({count}, narrow, Device::cpu())};
    run("cast_kernel", {DType::f32, narrow, std::int64_t{128}}, GetParam(), {(count + 127) / 128, 1, 1}, tensors,
        {count});
    std::vector<Tensor> back{tensors[1], make(std::vector<float>(all.size(), 77.f))};
    run("cast_kernel", {narrow, DType::f32, std::int64_t{128}}, GetParam(), {(count + 127) / 128, 1, 1}, back, {count});
    for (std::size_t i = 0; i < all.size(); ++i) {
      const float value = all[i];
      const float expected = narrow == DType::f16       ? formats::f16_to_f32(formats::f32_to_f16(value))
                             : narrow == DType::bf16    ? formats::bf16_to_f32(formats::f32_to_bf16(value))
                             : narrow == DType::fp8e4m3 ? formats::fp8e4m3_to_f32(formats::f32_to_fp8e4m3(value))
                                                        : formats::fp8e5m2_to_f32(formats::f32_to_fp8e5m2(value));
      const float actual = back[1].data_as<float>()[i];
      if (std::isnan(expected)) {
        EXPECT_TRUE(std::isnan(actual)) << value << " to " << name(narrow);
      } else {
        EXPECT_EQ(actual, expected) << value << " to " << name(narrow);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, TileLanguage, testing::ValuesIn(devices_with_compilers()),
                         [](const auto& test) { return test.param.is_cuda() ? "cuda" : "cpu"; });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(TileLanguage);

}  // namespace
}  // namespace kiln::test
