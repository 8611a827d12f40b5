// Products that the sweep does not make: long sums, all tiles and splits, limited processors, and what must be refused.

#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "registry/dispatch/dispatch.hpp"
#include "registry/plan/choice.hpp"
#include "registry/plan/device_target.hpp"
#include "registry/plan/registry.hpp"
#include "tests/support/devices.hpp"
#include "tests/support/error_message.hpp"
#include "tests/support/matchers.hpp"
#include "tests/support/tensor_values.hpp"
#include "tests/support/tensor_views.hpp"

namespace kiln::test {
namespace {

class Matmul : public DevicesTest {
 protected:
  std::mt19937 random_{17};

  std::vector<float> normal_numbers(std::int64_t count) {
    std::normal_distribution<float> normal;
    std::vector<float> values(static_cast<std::size_t>(count));
    for (float& value : values) value = normal(random_);
    return values;
  }
  /// -2 to 2: products and their sums are exact in every dtype and order.
  std::vector<float> small_integers(std::int64_t count) {
    std::vector<float> values(static_cast<std::size_t>(count));
    for (float& value : values) value = static_cast<float>(static_cast<int>(random_() % 5) - 2);
    return values;
  }
  /// `count` configs of the variant that multiplies a (m x k) and b (k x n).
  std::vector<Config> some_configs(const Tensor& a, const Tensor& b, const Attributes& attributes, int count) {
    const OpSpec& spec = Registry::process().get("matmul");
    const Device device = a.device();
    const std::vector<TensorView> inputs = {a, b};
    const Tensor out = make_f32(Dims{a.shape()[0], b.shape()[1]}, {}, device);
    const Call call = validated_call(spec, inputs, attributes, {.outputs = std::span(&out.view(), 1)});
    const std::vector<Config> all =
        choose(call, target_of(device), nullptr).variant->space(target_of(device)).enumerate();
    std::vector<Config> configs;
    while (static_cast<int>(configs.size()) < count) configs.push_back(all[random_() % all.size()]);
    return configs;
  }
};

Tensor cast_to(const Tensor& x, DType dtype) {
  return x.dtype() == dtype ? x : dispatch_gpu_op("cast", {x}, {{"dtype", dtype}});
}

/// a (m x k) @ b (k x n), dense and row-major, in double.
std::vector<double> product(const std::vector<float>& a, const std::vector<float>& b, std::int64_t m, std::int64_t n) {
  const auto rows = static_cast<std::size_t>(m), columns = static_cast<std::size_t>(n), inner = a.size() / rows;
  std::vector<double> result(rows * columns);
  for (std::size_t row = 0; row < rows; ++row)
    for (std::size_t i = 0; i < inner; ++i)
      for (std::size_t column = 0; column < columns; ++column)
        result[row * columns + column] += static_cast<double>(a[row * inner + i]) * b[i * columns + column];
  return result;
}

/// Unit roundoff of a float dtype.
double roundoff(DType dtype) {
  switch (dtype) {
    case DType::f16:
      return 0x1p-11;
    case DType::bf16:
      return 0x1p-8;
    case DType::f64:
      return 0x1p-53;
    default:
      return 0x1p-24;
  }
}

TEST_F(Matmul, ErrorsGrowWithTheRootOfK) {
  constexpr std::int64_t kM = 48, kN = 40;
  for (const Device device : devices_)
    for (const std::int64_t k : {256, 16384})
      for (const DType dtype : {DType::f32, DType::f16, DType::bf16})
        for (const char* precision : {"ieee", "tf32"}) {
          const bool tf32 = std::string(precision) == "tf32";
          if (tf32 && dtype != DType::f32) continue;
          const Tensor a = cast_to(make_f32({kM, k}, normal_numbers(kM * k), device), dtype);
          const Tensor b = cast_to(make_f32({k, kN}, normal_numbers(k * kN), device), dtype);
          const std::vector<double> exact =
              product(read_f32(cast_to(a, DType::f32)), read_f32(cast_to(b, DType::f32)), kM, kN);
          const std::vector<float> got = read_f32(
              dispatch_gpu_op("matmul", {a, b}, {{"out_dtype", DType::f32}, {"precision", std::string(precision)}}));
          // Sums are of size sqrt(k). Each of k additions rounds a partial sum, and tf32 each operand to 11 bits:
          // random walks, of which six standard deviations are allowed.
          const double size = std::sqrt(static_cast<double>(k));
          const double bound = size * (4 * size * roundoff(DType::f32) + (tf32 ? 6 * 0x1p-11 : 0));
          for (std::size_t i = 0; i < got.size(); ++i)
            ASSERT_NEAR(got[i], exact[i], bound)
                << name(dtype) << " " << precision << " k " << k << " element " << i << " on " << to_string(device);
        }
}

TEST_F(Matmul, EveryTileAndSplitIsExactOnWholeNumbers) {
  constexpr std::int64_t kM = 200, kN = 150, kK = 333;
  for (const Device device : devices_)
    for (const DType dtype : {DType::f32, DType::bf16, DType::fp8e4m3, DType::i8, DType::f64})
      for (const char* precision : {"ieee", "tf32"}) {
        if (std::string(precision) == "tf32" && dtype != DType::f32) continue;
        const std::vector<float> a_values = small_integers(kM * kK), b_values = small_integers(kK * kN);
        const std::vector<double> exact = product(a_values, b_values, kM, kN);
        const Tensor a = cast_to(make_f32({kM, kK}, a_values, device), dtype);
        const Tensor b = cast_to(make_f32({kK, kN}, b_values, device), dtype);
        const Attributes attributes = {{"out_dtype", DType::f32}, {"precision", std::string(precision)}};
        for (const Config& config : some_configs(a, b, attributes, 6)) {
          const std::vector<float> got = read_f32(dispatch_gpu_op("matmul", {a, b}, attributes, {.config = &config}));
          for (std::size_t j = 0; j < got.size(); ++j)
            ASSERT_EQ(got[j], exact[j]) << name(dtype) << " " << precision << " " << to_string(config) << " element "
                                        << j << " on " << to_string(device);
        }
      }
}

/// Rows are whole multiples of 16 bytes in either order, so that none is copied but where both operands lie across k.
TEST_F(Matmul, EveryOrderOfOperandsIsExactOnWholeNumbers) {
  constexpr std::int64_t kN = 272, kK = 400;
  for (const Device device : devices_)
    for (const std::int64_t m : {208, 16})
      for (const DType dtype : {DType::f32, DType::bf16, DType::fp8e4m3, DType::i8}) {
        if (m == 16 && !device.is_cuda()) continue;  // a variant of its own on GPUs alone
        const std::vector<float> a_values = small_integers(m * kK), b_values = small_integers(kK * kN);
        const std::vector<double> exact = product(a_values, b_values, m, kN);
        const auto stored = [&](const std::vector<float>& values, std::int64_t rows, bool transposed) {
          const std::int64_t columns = static_cast<std::int64_t>(values.size()) / rows;
          if (!transposed) return cast_to(make_f32({rows, columns}, values, device), dtype);
          std::vector<float> turned(values.size());
          for (std::size_t i = 0; i < values.size(); ++i)
            turned[i % static_cast<std::size_t>(columns) * static_cast<std::size_t>(rows) +
                   i / static_cast<std::size_t>(columns)] = values[i];
          return view_of(cast_to(make_f32({columns, rows}, turned, device), dtype), {rows, columns}, {1, rows});
        };
        const Attributes attributes = {{"out_dtype", DType::f32},
                                       {"precision", std::string(dtype == DType::f32 ? "tf32" : "ieee")}};
        for (const bool a_transposed : {false, true})
          for (const bool b_transposed : {false, true}) {
            const Tensor a = stored(a_values, m, a_transposed), b = stored(b_values, kK, b_transposed);
            for (const Config& config : some_configs(a, b, attributes, device.is_cuda() ? 3 : 1)) {
              const std::vector<float> got =
                  read_f32(dispatch_gpu_op("matmul", {a, b}, attributes, {.config = &config}));
              for (std::size_t i = 0; i < got.size(); ++i)
                ASSERT_EQ(got[i], exact[i])
                    << name(dtype) << (a_transposed ? " T" : " N") << (b_transposed ? "T " : "N ") << to_string(config)
                    << " element " << i << " on " << to_string(device);
            }
          }
      }
}

/// Batches whose matrices have a few tiles each take these in an order of their own.
TEST_F(Matmul, EveryMatrixOfABatchIsTheProductOfItsOwn) {
  constexpr std::int64_t kBatch = 37, kM = 304, kN = 520, kK = 520;
  const std::vector<float> a = small_integers(kBatch * kM * kK), b = small_integers(kBatch * kK * kN);
  const Attributes attributes{{"out_dtype", DType::f32}};
  const auto matrix = [](const std::vector<float>& all, std::int64_t rows, std::int64_t columns, std::int64_t index,
                         Device device) {
    const auto first = all.begin() + index * rows * columns;
    return cast_to(make_f32({rows, columns}, {first, first + rows * columns}, device), DType::bf16);
  };
  for (const Device device : devices_) {
    std::vector<float> expected;
    for (std::int64_t i = 0; i < kBatch; ++i) {
      const std::vector<float> one =
          read_f32(dispatch_gpu_op("matmul", {matrix(a, kM, kK, i, device), matrix(b, kK, kN, i, device)}, attributes));
      expected.insert(expected.end(), one.begin(), one.end());
    }
    std::vector<Config> configs;
    if (device.is_cuda())
      configs = some_configs(matrix(a, kM, kK, 0, device), matrix(b, kK, kN, 0, device), attributes, 4);
    const Tensor all_a = cast_to(make_f32({kBatch, kM, kK}, a, device), DType::bf16);
    const Tensor all_b = cast_to(make_f32({kBatch, kK, kN}, b, device), DType::bf16);
    for (std::size_t i = 0; i <= configs.size(); ++i) {
      const Config* config = i < configs.size() ? &configs[i] : nullptr;
      const std::vector<float> got =
          read_f32(dispatch_gpu_op("matmul", {all_a, all_b}, attributes, {.config = config}));
      EXPECT_EQ(got, expected) << (config != nullptr ? to_string(*config) : "default") << " on " << to_string(device);
    }
  }
}

TEST_F(Matmul, RepeatsGiveIdenticalBits) {
  for (const Device device : devices_) {
    const Tensor a = make_f32({64, 3000}, normal_numbers(64 * 3000), device);
    const Tensor b = make_f32({3000, 70}, normal_numbers(3000 * 70), device);
    Config config{{"SPLIT_K", 4}};
    std::vector<float> first;
    for (int i = 0; i < 50; ++i) {
      const std::vector<float> got = read_f32(dispatch_gpu_op("matmul", {a, b}, {}, {.config = &config}));
      if (i == 0) first = got;
      ASSERT_EQ(std::memcmp(got.data(), first.data(), got.size() * sizeof(float)), 0) << "repeat " << i;
    }
  }
}

TEST_F(Matmul, FewProcessorsDoTheSameWork) {
  constexpr std::int64_t kM = 300, kN = 260, kK = 100;
  const std::vector<float> a = small_integers(kM * kK), b = small_integers(kK * kN);
  const std::vector<double> exact = product(a, b, kM, kN);
  for (const Device device : devices_)
    for (const std::int64_t num_sms : {1, 7, 100'000}) {
      const std::vector<float> got = read_f32(dispatch_gpu_op(
          "matmul", {make_f32({kM, kK}, a, device), make_f32({kK, kN}, b, device)}, {{"num_sms", num_sms}}));
      for (std::size_t i = 0; i < got.size(); ++i) ASSERT_EQ(got[i], exact[i]) << num_sms << " element " << i;
    }
}

TEST_F(Matmul, NothingToSumGivesTheAddend) {
  for (const Device device : devices_) {
    const Tensor a = make_f32({2, 0}, {}, device), b = make_f32({0, 3}, {}, device);
    EXPECT_THAT(read_f32(dispatch_gpu_op("matmul", {a, b})), Each(0.f));
    const Tensor c = make_f32({3}, {1, 2, 3}, device);
    EXPECT_THAT(read_f32(dispatch_gpu_op("matmul", {a, b, c}, {{"beta", 2.0}})), ElementsAre(2, 4, 6, 2, 4, 6));
    EXPECT_EQ(
        dispatch_gpu_op("matmul", {make_f32({0, 4}, {}, device), make_f32({4, 5}, normal_numbers(20), device)}).shape(),
        (Dims{0, 5}));
  }
}

/// More than caches keep: in strips on the CPU. Without k there is nothing to make strips of.
TEST_F(Matmul, LargeOutputsAreExactOnWholeNumbers) {
  constexpr std::int64_t kM = 713, kN = 9'010;
  for (const Device device : devices_)
    for (const std::int64_t k : {0, 40})
      for (const bool is_turned : {false, true}) {
        const std::vector<float> a = small_integers(kM * k), b = small_integers(k * kN);
        const Tensor memory = make_f32({k * kN}, b, device);
        const Tensor out = dispatch_gpu_op(
            "matmul", {make_f32({kM, k}, a, device), view_of(memory, {k, kN}, is_turned ? Dims{1, k} : Dims{kN, 1})});
        const std::vector<float> got = read_f32(out);
        for (int i = 0; i < 20'000; ++i) {
          const auto row = static_cast<std::int64_t>(random_() % kM),
                     column = static_cast<std::int64_t>(random_() % kN);
          float expected = 0;
          for (std::int64_t j = 0; j < k; ++j)
            expected += a[static_cast<std::size_t>(row * k + j)] *
                        b[static_cast<std::size_t>(is_turned ? column * k + j : j * kN + column)];
          ASSERT_EQ(got[static_cast<std::size_t>(row * kN + column)], expected)
              << "k " << k << (is_turned ? " nt" : " nn") << " at " << row << ", " << column;
        }
      }
}

TEST_F(Matmul, ScalesAreReadOnTheDevice) {
  for (const Device device : devices_) {
    const std::vector<float> a = small_integers(32 * 64), b = small_integers(64 * 48);
    const std::vector<double> exact = product(a, b, 32, 48);
    const std::vector<float> got = read_f32(dispatch_gpu_op(
        "scaled_matmul",
        {cast_to(make_f32({32, 64}, a, device), DType::fp8e4m3), cast_to(make_f32({64, 48}, b, device), DType::fp8e5m2),
         make_f32({1}, {0.5f}, device), make_f32(Dims{}, {4.f}, device)},
        {{"out_dtype", DType::f32}}));
    for (std::size_t i = 0; i < got.size(); ++i) ASSERT_EQ(got[i], 2 * exact[i]) << i;
  }
}

TEST_F(Matmul, RefusesAnOutputThatOverlapsAnInput) {
  for (const Device device : devices_) {
    const Tensor memory = make_f32(normal_numbers(1000), device);
    const Tensor a = view_of(memory, {10, 10}, {10, 1}), b = view_of(memory, {10, 10}, {10, 1}, 200);
    const Tensor out = view_of(memory, {10, 10}, {10, 1}, 90);
    for (const Tensor& given : {out, a})
      EXPECT_THAT(usage_message([&] { dispatch_gpu_op("matmul", {a, b}, {}, {.outputs = {{given}}}); }),
                  Says("'out'", "'a'"));
  }
}

}  // namespace
}  // namespace kiln::test
