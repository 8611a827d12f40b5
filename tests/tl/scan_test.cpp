#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "tests/support/devices.hpp"
#include "tests/tl/tile_test.hpp"

namespace kiln::test {
namespace {

const char* const kText = R"(
#include <kiln/tl.hpp>
namespace scan_kernels {

template <int M, int N>
KILN_DEVICE auto places() {
  return tl::expand_dims<1>(tl::arange<M>()) * N + tl::expand_dims<0>(tl::arange<N>());
}

// First f, then g, of maps x -> first * x + second modulo 2^32: associative, not commutative, exact.
struct Compose {
  template <typename Map>
  KILN_DEVICE Map operator()(const Map& f, const Map& g) const {
    return {f.first * g.first, f.second * g.first + g.second};
  }
};

template <int M, int N, int AXIS, bool REVERSE>
KILN_KERNEL void compose(const uint32_t* factors, const uint32_t* offsets, uint32_t* out_factors,
                         uint32_t* out_offsets) {
  const auto [f, o] = tl::associative_scan<AXIS, REVERSE>(
      tl::Tuple{tl::load(factors + places<M, N>()), tl::load(offsets + places<M, N>())}, Compose{});
  tl::store(out_factors + places<M, N>(), f);
  tl::store(out_offsets + places<M, N>(), o);
}

// x cast to T; out[3, N] = running sums, running products, and running maxima by a user's function.
template <typename T, int N>
KILN_KERNEL void running(const float* x, double* out) {
  const auto columns = tl::arange<N>();
  const auto tile = tl::cast<T>(tl::load(x + columns));
  const auto at = tl::program_id(0) * (3 * N) + columns;
  tl::store(out + at, tl::cumsum(tile));
  tl::store(out + (at + N), tl::cumprod(tile));
  tl::store(out + (at + 2 * N), tl::associative_scan<0>(tile, [](T a, T b) {
    return tl::cast<double>(a) > tl::cast<double>(b) ? a : b;
  }));
}

// The totals of compose's lines, in out[2, length of the other axis].
template <int M, int N, int AXIS, bool REVERSE>
KILN_KERNEL void totals(const uint32_t* factors, const uint32_t* offsets, uint32_t* out) {
  const auto [scanned, totals] = tl::associative_scan_with_totals<AXIS, REVERSE>(
      tl::Tuple{tl::load(factors + places<M, N>()), tl::load(offsets + places<M, N>())}, Compose{});
  constexpr int kLines = AXIS == 1 ? M : N;
  tl::store(out + tl::arange<kLines>(), totals.first);
  tl::store(out + (tl::arange<kLines>() + kLines), totals.second);
}

// Of what a reduction leaves, backwards.
template <int M, int N>
KILN_KERNEL void of_slice(const int32_t* x, int32_t* out) {
  tl::store(out + tl::arange<M>(), tl::cumsum<0, true>(tl::sum<1>(tl::load(x + places<M, N>()))));
}

}  // namespace scan_kernels
)";

TextKernel kernel(const std::string& name, std::vector<TemplateArgument> arguments, int num_warps) {
  TextKernel made{"tests/tl/scan_kernels.hpp", kText, "scan_kernels::" + name, std::move(arguments)};
  made.num_warps = num_warps;
  return made;
}

class Scan : public TileTest {};

TEST_P(Scan, ComposesInOrder) {
  const int shapes[][2] = {{1, 1},   {1, 2},   {2, 1},    {4, 4},   {2, 8},    {16, 16}, {64, 2},
                           {128, 1}, {8, 256}, {2, 2048}, {32, 64}, {1, 4096}, {4096, 1}};
  for (const auto [m, n] : shapes)
    for (const int axis : {0, 1})
      for (const bool reverse : {false, true})
        for (const int num_warps : some_warps(m * n)) {
          SCOPED_TRACE(::testing::Message() << m << "x" << n << " axis " << axis << (reverse ? " reversed" : "")
                                            << " num_warps " << num_warps);
          const auto numel = static_cast<std::size_t>(m * n);
          std::vector<std::uint32_t> factors(numel), offsets(numel), unset(numel, 77);
          for (auto& value : factors) value = static_cast<std::uint32_t>(random_()) | 1u;
          for (auto& value : offsets) value = static_cast<std::uint32_t>(random_());
          std::vector<Tensor> tensors{tensor_of(DType::u32, factors), tensor_of(DType::u32, offsets),
                                      tensor_of(DType::u32, unset), tensor_of(DType::u32, unset)};
          kernel("compose", {std::int64_t{m}, std::int64_t{n}, std::int64_t{axis}, reverse}, num_warps)
              .run(GetParam(), {1, 1, 1}, tensors);
          const int length = axis == 1 ? n : m, lines = axis == 1 ? m : n;
          for (int line = 0; line < lines; ++line) {
            std::uint32_t factor = 1, offset = 0;
            for (int i = 0; i < length; ++i) {
              const int place = reverse ? length - 1 - i : i;
              const auto at = static_cast<std::size_t>(axis == 1 ? line * n + place : place * n + line);
              offset = offset * factors[at] + offsets[at];
              factor *= factors[at];
              ASSERT_EQ(tensors[2].data_as<std::uint32_t>()[at], factor) << "line " << line << " element " << place;
              ASSERT_EQ(tensors[3].data_as<std::uint32_t>()[at], offset) << "line " << line << " element " << place;
            }
          }
        }
}

TEST_P(Scan, TotalsOfLines) {
  const int shapes[][2] = {{1, 2}, {16, 16}, {64, 2}, {8, 256}, {1, 2048}, {512, 4}};
  for (const auto [m, n] : shapes)
    for (const int axis : {0, 1})
      for (const bool reverse : {false, true})
        for (const int num_warps : some_warps(m * n)) {
          SCOPED_TRACE(::testing::Message() << m << "x" << n << " axis " << axis << (reverse ? " reversed" : "")
                                            << " num_warps " << num_warps);
          std::vector<std::uint32_t> factors(static_cast<std::size_t>(m * n)), offsets(factors.size());
          for (auto& value : factors) value = static_cast<std::uint32_t>(random_()) | 1u;
          for (auto& value : offsets) value = static_cast<std::uint32_t>(random_());
          const int length = axis == 1 ? n : m, lines = axis == 1 ? m : n;
          std::vector<Tensor> tensors{
              tensor_of(DType::u32, factors), tensor_of(DType::u32, offsets),
              tensor_of(DType::u32, std::vector<std::uint32_t>(static_cast<std::size_t>(2 * lines), 77))};
          kernel("totals", {std::int64_t{m}, std::int64_t{n}, std::int64_t{axis}, reverse}, num_warps)
              .run(GetParam(), {1, 1, 1}, tensors);
          for (int line = 0; line < lines; ++line) {
            std::uint32_t factor = 1, offset = 0;
            for (int i = 0; i < length; ++i) {
              const int place = reverse ? length - 1 - i : i;
              const auto at = static_cast<std::size_t>(axis == 1 ? line * n + place : place * n + line);
              offset = offset * factors[at] + offsets[at];
              factor *= factors[at];
            }
            ASSERT_EQ(tensors[2].data_as<std::uint32_t>()[line], factor) << "line " << line;
            ASSERT_EQ(tensors[2].data_as<std::uint32_t>()[lines + line], offset) << "line " << line;
          }
        }
}

TEST_P(Scan, EveryDtype) {
  constexpr int kN = 256;
  for (const DType dtype :
       {DType::f64, DType::f32, DType::f16, DType::bf16, DType::fp8e4m3, DType::fp8e5m2, DType::i64, DType::i32,
        DType::i16, DType::i8, DType::u64, DType::u32, DType::u16, DType::u8, DType::bool_})
    for (const int num_warps : some_warps(kN, 2)) {
      SCOPED_TRACE(::testing::Message() << name(dtype) << " num_warps " << num_warps);
      std::vector<float> x(kN);
      const bool is_signed = dtype != DType::bool_ && info(dtype).is_signed;
      for (float& value : x) value = random_() % 16 == 0 && is_signed ? -1.f : 1.f;
      std::vector<Tensor> tensors{tensor_of(DType::f32, x), tensor_of(DType::f64, std::vector<double>(3 * kN, 77.))};
      kernel("running", {dtype, std::int64_t{kN}}, num_warps).run(GetParam(), {1, 1, 1}, tensors);
      double sum = 0, product = 1, largest = -2;
      for (std::size_t i = 0; i < kN; ++i) {
        const auto value = static_cast<double>(x[i]);
        sum += value, product *= value, largest = std::max(largest, value);
        const double* out = tensors[1].data_as<double>();
        ASSERT_EQ(out[i], sum) << i;
        ASSERT_EQ(out[kN + i], product) << i;
        ASSERT_EQ(out[2 * kN + i], largest) << i;
      }
    }
}

TEST_P(Scan, NanAndInfinityReachWhatFollows) {
  constexpr std::size_t kN = 512, kInfinity = 37, kNan = 300;
  for (const int num_warps : some_warps(kN, 6)) {
    std::vector<float> x(kN, 1.f);
    x[kInfinity] = INFINITY;
    x[kNan] = NAN;
    std::vector<Tensor> tensors{tensor_of(DType::f32, x), tensor_of(DType::f64, std::vector<double>(3 * kN, 77.))};
    kernel("running", {DType::f32, std::int64_t{kN}}, num_warps).run(GetParam(), {1, 1, 1}, tensors);
    for (std::size_t i = 0; i < kN; ++i) {
      const double sum = tensors[1].data_as<double>()[i], product = tensors[1].data_as<double>()[kN + i];
      if (i < kInfinity) {
        ASSERT_EQ(sum, static_cast<double>(i + 1));
        ASSERT_EQ(product, 1.);
      } else if (i < kNan) {
        ASSERT_EQ(sum, INFINITY) << i;
        ASSERT_EQ(product, INFINITY) << i;
      } else {
        ASSERT_TRUE(std::isnan(sum) && std::isnan(product)) << i;
      }
    }
  }
}

TEST_P(Scan, RepeatsAreEqualToTheBit) {
  constexpr int kPrograms = 50;
  for (const int n : {32, 256, 2048})
    for (const int num_warps : some_warps(n, 3)) {
      std::vector<float> x(static_cast<std::size_t>(n));
      std::normal_distribution<float> draw(0.f, 0.9f);
      for (float& value : x) value = draw(random_);
      std::vector<Tensor> tensors{
          tensor_of(DType::f32, x),
          tensor_of(DType::f64, std::vector<double>(static_cast<std::size_t>(3 * n * kPrograms), 77.))};
      kernel("running", {DType::f32, std::int64_t{n}}, num_warps).run(GetParam(), {kPrograms, 1, 1}, tensors);
      const double* out = tensors[1].data_as<double>();
      double sum = 0, magnitude = 0;
      for (int i = 0; i < n; ++i) {
        sum += static_cast<double>(x[static_cast<std::size_t>(i)]);
        magnitude += std::abs(static_cast<double>(x[static_cast<std::size_t>(i)]));
        ASSERT_NEAR(out[i], sum, 1e-6 * magnitude) << n << " num_warps " << num_warps << " element " << i;
      }
      for (int program = 1; program < kPrograms; ++program)
        ASSERT_EQ(std::memcmp(out, out + 3 * n * program, static_cast<std::size_t>(3 * n) * sizeof(double)), 0)
            << n << " num_warps " << num_warps << " program " << program;
    }
}

TEST_P(Scan, OfWhatAReductionLeft) {
  constexpr int kM = 32, kN = 8;
  for (const int num_warps : some_warps(kM * kN, 6)) {
    std::vector<std::int32_t> x(kM * kN);
    for (auto& value : x) value = static_cast<std::int32_t>(random_() % 1000) - 500;
    std::vector<Tensor> tensors{tensor_of(DType::i32, x), tensor_of(DType::i32, std::vector<std::int32_t>(kM, 77))};
    kernel("of_slice", {std::int64_t{kM}, std::int64_t{kN}}, num_warps).run(GetParam(), {1, 1, 1}, tensors);
    std::int32_t sum = 0;
    for (int row = kM - 1; row >= 0; --row) {
      for (int column = 0; column < kN; ++column) sum += x[static_cast<std::size_t>(row * kN + column)];
      ASSERT_EQ(tensors[1].data_as<std::int32_t>()[row], sum) << row;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, Scan, ::testing::ValuesIn(devices_with_compilers()),
                         [](const auto& test) { return test.param.is_cuda() ? "cuda" : "cpu"; });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Scan);

}  // namespace
}  // namespace kiln::test
