#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <vector>

#include "compiler/tl/cuda/pipeline_places.hpp"
#include "tests/support/devices.hpp"
#include "tests/tl/tile_test.hpp"

namespace kiln::test {
namespace {

constexpr const char* kKernels = R"(
#include <kiln/tl.hpp>

template <bool TRANSPOSED, int M, int N, typename T>
KILN_DEVICE auto tile_at(T* data, int64_t stride) {
  const auto i = tl::expand_dims<1>(tl::arange<M>());
  const auto j = tl::expand_dims<0>(tl::arange<N>());
  if constexpr (TRANSPOSED)
    return data + (i + j * stride);
  else
    return data + (i * stride + j);
}
template <int M, int N>
KILN_DEVICE auto mask_of(int64_t rows, int64_t columns) {
  return (tl::expand_dims<1>(tl::arange<M>()) < rows) & (tl::expand_dims<0>(tl::arange<N>()) < columns);
}

// All of the accumulator, what lies outside the masks included, after two products that are added to 1.
template <typename T, bool TRANSPOSED>
KILN_KERNEL void whole_sums(const T* a, const T* b, float* out, int64_t m, int64_t n, int64_t k, int64_t stride) {
  auto acc = tl::dot_accumulator<T, 64, 64>() + 1;
  tl::pipeline<2>(
      2,
      [&](int64_t) {
        return tl::Tuple{tl::deferred_load(tile_at<TRANSPOSED, 64, 32>(a, stride), mask_of<64, 32>(m, k)),
                         tl::deferred_load(tile_at<TRANSPOSED, 32, 64>(b, stride), mask_of<32, 64>(k, n))};
      },
      [&](const auto& x, const auto& y) { acc = tl::dot(x, y, acc); });
  tl::store(tile_at<false, 64, 64>(out, 64), acc);
}

// The accumulator before and after, both of which are used: b @ b is added to a copy.
template <typename T>
KILN_KERNEL void both_sums(const T* a, const T* b, float* out) {
  const auto x = tl::load(tile_at<false, 32, 32>(a, 32));
  const auto y = tl::load(tile_at<false, 32, 32>(b, 32));
  const auto before = tl::dot(x, y, tl::dot_accumulator<T, 32, 32>());
  const auto after = tl::dot(y, y, before);
  tl::store(tile_at<false, 32, 32>(out, 32), after);
  tl::store(tile_at<false, 32, 32>(out + 1024, 32), before);
  tl::store(tile_at<false, 32, 32>(out + 2048, 32), after - before);
}

// Sums that are saved in front of a loop and restored in each turn: 2 * a + steps * a @ b.
template <typename T, int TURNS>
KILN_KERNEL void restored_sums(const T* a, const T* b, float* out, int64_t steps) {
  auto sums = tl::load(tile_at<false, 32, 32>(a, 32)) * 2.f;
  const auto saved = sums;
  for (int turn = 0; turn < TURNS; ++turn) {
    sums = saved;
    for (int64_t step = 0; step < steps; ++step)
      sums = tl::dot(tl::load(tile_at<false, 32, 32>(a, 32)), tl::load(tile_at<false, 32, 32>(b, 32)), sums);
    tl::store(tile_at<false, 32, 32>(out + turn * 1024, 32), sums);
  }
}

// The same as often as it takes until the next of `flags` is not 0.
template <typename T>
KILN_KERNEL void tried_sums(const T* a, const T* b, float* out, const int32_t* flags, int64_t steps) {
  auto sums = tl::load(tile_at<false, 32, 32>(a, 32)) * 2.f;
  auto tried = tl::zeros<float, 32, 32>();
  int64_t tries = 0;
  do {
    tried = sums;
    for (int64_t step = 0; step < steps; ++step)
      tried = tl::dot(tl::load(tile_at<false, 32, 32>(a, 32)), tl::load(tile_at<false, 32, 32>(b, 32)), tried);
  } while (tl::load(flags + tries++) == 0);
  sums = tried;
  tl::store(tile_at<false, 32, 32>(out, 32), sums);
}

// A mask that is no rectangle from the first element on: the matrix below its diagonal.
template <typename T>
KILN_KERNEL void lower_triangle(const T* a, const T* b, float* out) {
  auto acc = tl::dot_accumulator<T, 32, 32>();
  const auto below = tl::expand_dims<0>(tl::arange<32>()) - tl::expand_dims<1>(tl::arange<32>()) < 0;
  tl::pipeline<1>(
      1,
      [&](int64_t) {
        return tl::Tuple{tl::deferred_load(tile_at<false, 32, 32>(a, 32), below),
                         tl::deferred_load(tile_at<false, 32, 32>(b, 32))};
      },
      [&](const auto& x, const auto& y) { acc = tl::dot(x, y, acc); });
  tl::store(tile_at<false, 32, 32>(out, 32), acc);
}
)";

TextKernel kernel(const std::string& name, std::vector<TemplateArgument> arguments) {
  TextKernel made{"tests/tl/dot_padding_kernels.hpp", kKernels, name, std::move(arguments)};
  made.shared_bytes = tl::pipeline_shared_bytes(2, tl::shared_tile_bytes(64, 32, 4), tl::shared_tile_bytes(32, 64, 4));
  return made;
}

/// What a test multiplies: small integers, different in each place.
float number_at(std::int64_t place) {
  return static_cast<float>(place * 7 % 11 - 5);
}

/// Elements beyond the masks are NaN, which would show in any sum that it reached.
TEST(DotPadding, OutsideTheMasksOperandsAreZero) {
  constexpr std::int64_t kStride = 70;
  const std::int64_t sizes[][3] = {{64, 64, 32}, {63, 61, 31}, {1, 1, 1}, {9, 33, 17}, {17, 16, 8}, {40, 5, 30}};
  for (const Device device : devices_with_compilers())
    for (const bool transposed : {false, true})
      for (const auto& [m, n, k] : sizes) {
        const auto fill = [&](std::int64_t rows, std::int64_t columns) {
          std::vector<float> values(kStride * 70, std::numeric_limits<float>::quiet_NaN());
          for (std::int64_t i = 0; i < rows; ++i)
            for (std::int64_t j = 0; j < columns; ++j)
              values[static_cast<std::size_t>(transposed ? j * kStride + i : i * kStride + j)] =
                  number_at(i * columns + j);
          return tensor_of(DType::f32, values);
        };
        std::vector<Tensor> tensors{fill(m, k), fill(k, n), tensor_of(DType::f32, std::vector<float>(64 * 64, 77))};
        kernel("whole_sums", {DType::f32, transposed}).run(device, {1, 1, 1}, tensors, {m, n, k, kStride});
        for (std::int64_t i = 0; i < 64; ++i)
          for (std::int64_t j = 0; j < 64; ++j) {
            float expected = 1;
            if (i < m && j < n)
              for (std::int64_t l = 0; l < k; ++l) expected += 2 * number_at(i * k + l) * number_at(l * n + j);
            ASSERT_EQ(tensors[2].data_as<float>()[i * 64 + j], expected)
                << m << "x" << n << "x" << k << (transposed ? ", transposed, " : ", ") << i << ", " << j << " on "
                << to_string(device);
          }
      }
}

class DotOfSquares : public ::testing::Test {
 protected:
  /// Products of 32 x 32 matrices, the second one's rows cut at the diagonal of the first where asked.
  static float product(std::int64_t shift_a, std::int64_t shift_b, std::int64_t i, std::int64_t j,
                       bool is_cut = false) {
    float sum = 0;
    for (std::int64_t l = 0; l < (is_cut ? i : 32); ++l)
      sum += number_at(i * 32 + l + shift_a) * number_at(l * 32 + j + shift_b);
    return sum;
  }
  static Tensor square(std::int64_t shift) {
    std::vector<float> values;
    for (std::int64_t place = 0; place < 1024; ++place) values.push_back(number_at(place + shift));
    return tensor_of(DType::f32, values);
  }
};

TEST_F(DotOfSquares, TheAccumulatorGivenIsLeftAsItWas) {
  for (const Device device : devices_with_compilers()) {
    std::vector<Tensor> tensors{square(0), square(3), tensor_of(DType::f32, std::vector<float>(3072, 77))};
    kernel("both_sums", {DType::f32}).run(device, {1, 1, 1}, tensors);
    const float* const out = tensors[2].data_as<float>();
    for (std::int64_t i = 0; i < 32; ++i)
      for (std::int64_t j = 0; j < 32; ++j) {
        const float before = product(0, 3, i, j), added = product(3, 3, i, j);
        ASSERT_EQ(out[i * 32 + j], before + added) << i << ", " << j << " on " << to_string(device);
        ASSERT_EQ(out[1024 + i * 32 + j], before) << i << ", " << j << " on " << to_string(device);
        ASSERT_EQ(out[2048 + i * 32 + j], added) << i << ", " << j << " on " << to_string(device);
      }
  }
}

TEST_F(DotOfSquares, SumsAreSavedAndRestored) {
  constexpr std::int64_t kTurns = 3, kSteps = 2;
  for (const Device device : devices_with_compilers()) {
    const auto poisoned = [](std::int64_t squares) {
      return tensor_of(DType::f32, std::vector<float>(static_cast<std::size_t>(squares * 1024), 77));
    };
    std::vector<Tensor> restored{square(0), square(3), poisoned(kTurns)};
    kernel("restored_sums", {DType::f32, kTurns}).run(device, {1, 1, 1}, restored, {kSteps});
    std::vector<Tensor> tried{square(0), square(3), poisoned(1),
                              tensor_of(DType::i32, std::vector<std::int32_t>{0, 0, 1})};
    kernel("tried_sums", {DType::f32}).run(device, {1, 1, 1}, tried, {kSteps});
    for (std::int64_t i = 0; i < 32; ++i)
      for (std::int64_t j = 0; j < 32; ++j) {
        const std::int64_t at = i * 32 + j;
        const float expected = 2 * number_at(at) + kSteps * product(0, 3, i, j);
        for (std::int64_t turn = 0; turn < kTurns; ++turn)
          ASSERT_EQ(restored[2].data_as<float>()[turn * 1024 + at], expected)
              << turn << ", " << i << ", " << j << " on " << to_string(device);
        ASSERT_EQ(tried[2].data_as<float>()[at], expected) << i << ", " << j << " on " << to_string(device);
      }
  }
}

TEST_F(DotOfSquares, AnySymbolicMask) {
  for (const Device device : devices_with_compilers()) {
    std::vector<Tensor> tensors{square(0), square(3), tensor_of(DType::f32, std::vector<float>(1024, 77))};
    kernel("lower_triangle", {DType::f32}).run(device, {1, 1, 1}, tensors);
    for (std::int64_t i = 0; i < 32; ++i)
      for (std::int64_t j = 0; j < 32; ++j)
        ASSERT_EQ(tensors[2].data_as<float>()[i * 32 + j], product(0, 3, i, j, true))
            << i << ", " << j << " on " << to_string(device);
  }
}

}  // namespace
}  // namespace kiln::test
