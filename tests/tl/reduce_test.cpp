#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <random>

#include "tests/support/devices.hpp"
#include "tests/tl/tile_test.hpp"

namespace kiln::test {
namespace {

const char* const kText = R"(
#include <kiln/tl.hpp>
namespace reduce_kernels {

template <int M, int N>
KILN_DEVICE auto places() {
  return tl::expand_dims<1>(tl::arange<M>()) * N + tl::expand_dims<0>(tl::arange<N>());
}

struct SumAndXor {
  KILN_DEVICE tl::Tuple<uint32_t, uint32_t> operator()(tl::Tuple<uint32_t, uint32_t> a,
                                                       tl::Tuple<uint32_t, uint32_t> b) const {
    return {a.first + b.first, a.second ^ b.second};
  }
};

// out = {sum, xor, product} of x[M, N] along an axis, then of all.
template <int M, int N, int AXIS>
KILN_KERNEL void whole_numbers(const uint32_t* x, uint32_t* out) {
  const auto tile = tl::load(x + places<M, N>());
  constexpr int kLength = AXIS == 1 ? M : N;
  const auto along = tl::arange<kLength>();
  const auto [sums, xors] = tl::reduce<AXIS>(tl::Tuple{tile, tile}, SumAndXor{});
  tl::store(out + along, sums);
  tl::store(out + (along + kLength), xors);
  tl::store(out + (along + 2 * kLength), tl::prod<AXIS>(tile));
  const auto [sum, all_xor] = tl::reduce(tl::Tuple{tile, tile}, SumAndXor{});
  tl::store(out + 3 * kLength, sum);
  tl::store(out + (3 * kLength + 1), all_xor);
  tl::store(out + (3 * kLength + 2), tl::prod(tile));
}

// x cast to T; out: the largest and its index, the smallest and its index along the rows, then of all; then sum,
// product and a user's maximum of all.
template <typename T, int M, int N>
KILN_KERNEL void extrema(const float* x, double* out) {
  const auto tile = tl::cast<T>(tl::load(x + places<M, N>()));
  const auto rows = tl::arange<M>();
  const auto [largest, where_largest] = tl::max_with_index<1>(tile);
  const auto [smallest, where_smallest] = tl::min_with_index<1>(tile);
  tl::store(out + rows, largest);
  tl::store(out + (rows + M), where_largest);
  tl::store(out + (rows + 2 * M), smallest);
  tl::store(out + (rows + 3 * M), where_smallest);
  const auto [most, place] = tl::max_with_index(tile);
  tl::store(out + 4 * M, most);
  tl::store(out + (4 * M + 1), place);
  tl::store(out + (4 * M + 2), tl::argmin(tile));
  tl::store(out + (4 * M + 3), tl::sum(tile));
  tl::store(out + (4 * M + 4), tl::prod(tile));
  tl::store(out + (4 * M + 5),
            tl::reduce(tile, [](T a, T b) { return tl::cast<double>(a) > tl::cast<double>(b) ? a : b; }));
  tl::store(out + (4 * M + 6 + tl::arange<N>()), tl::argmax<0>(tile));
  tl::store(out + (4 * M + 6 + N + tl::arange<N>()), tl::argmin<0>(tile));
}

// (count, mean, sum of squared distances) of all elements: not equal either way round to the last bit. Every element
// of out[3, N] gets the thread's own result.
struct Welford {
  template <typename State>
  KILN_DEVICE State operator()(const State& a, const State& b) const {
    const float count = a.first + b.first, distance = b.second - a.second, share = b.first / count;
    return {count, a.second + distance * share, a.third + b.third + distance * distance * a.first * share};
  }
};
template <int N>
KILN_KERNEL void welford(const float* x, float* out) {
  const auto columns = tl::arange<N>();
  const auto [count, mean, squares] =
      tl::reduce<0>(tl::Tuple{tl::full<float, N>(1.f), tl::load(x + columns), tl::zeros<float, N>()}, Welford{});
  const auto at = tl::program_id(0) * (3 * N) + columns;
  tl::store(out + at, tl::full<float, N>(count));
  tl::store(out + (at + N), tl::full<float, N>(mean));
  tl::store(out + (at + 2 * N), tl::full<float, N>(squares));
}

// Four tiles, one of them symbolic and one a slice: out = sums of each.
template <int M, int N>
KILN_KERNEL void four(const int32_t* x, int32_t* out) {
  const auto tile = tl::load(x + places<M, N>());
  const auto r = tl::reduce(tl::Tuple{tl::sum<1>(tile), tl::arange<M>(), tl::zeros<tl::int8_t, M>(), tl::arange<M>() < 3},
                            [](auto a, auto b) {
                              using State = decltype(a);
                              return State{a.first + b.first, a.second + b.second,
                                           static_cast<tl::int8_t>(a.third + b.third + 1), a.fourth || b.fourth};
                            });
  tl::store(out, r.first);
  tl::store(out + 1, r.second);
  tl::store(out + 2, r.third);
  tl::store(out + 3, r.fourth);
}

}  // namespace reduce_kernels
)";

TextKernel kernel(const std::string& name, std::vector<TemplateArgument> arguments, int num_warps) {
  TextKernel made{"tests/tl/reduce_kernels.hpp", kText, "reduce_kernels::" + name, std::move(arguments)};
  made.num_warps = num_warps;
  return made;
}

class Reduce : public TileTest {};

TEST_P(Reduce, WholeNumbersOfEveryShape) {
  const int shapes[][2] = {{1, 1},   {1, 2},   {2, 1},   {4, 4},    {2, 8},   {16, 16},  {64, 2},
                           {128, 1}, {1, 128}, {8, 256}, {2, 2048}, {32, 64}, {1, 4096}, {4096, 1}};
  for (const auto [m, n] : shapes)
    for (const int axis : {0, 1})
      for (const int num_warps : some_warps(m * n, 2)) {
        SCOPED_TRACE(::testing::Message() << m << "x" << n << " axis " << axis << " num_warps " << num_warps);
        const int length = axis == 1 ? m : n;
        std::vector<std::uint32_t> x(static_cast<std::size_t>(m * n)),
            expected(static_cast<std::size_t>(3 * length + 3));
        for (auto& value : x) value = static_cast<std::uint32_t>(random_()) | 1u;
        std::fill(expected.end() - 1, expected.end(), 1u);
        std::fill(expected.begin() + 2 * length, expected.begin() + 3 * length, 1u);
        for (int i = 0; i < m * n; ++i) {
          const auto place = static_cast<std::size_t>(axis == 1 ? i / n : i % n), l = static_cast<std::size_t>(length);
          const std::uint32_t value = x[static_cast<std::size_t>(i)];
          expected[place] += value, expected[place + l] ^= value, expected[place + 2 * l] *= value;
          expected[3 * l] += value, expected[3 * l + 1] ^= value, expected[3 * l + 2] *= value;
        }
        std::vector<Tensor> tensors{tensor_of(DType::u32, x),
                                    tensor_of(DType::u32, std::vector<std::uint32_t>(expected.size(), 77))};
        kernel("whole_numbers", {std::int64_t{m}, std::int64_t{n}, std::int64_t{axis}}, num_warps)
            .run(GetParam(), {1, 1, 1}, tensors);
        const auto* out = tensors[1].data_as<std::uint32_t>();
        ASSERT_EQ(std::vector<std::uint32_t>(out, out + expected.size()), expected);
      }
}

/// The place of the extremum as NumPy's argmax and argmin have it.
int extremum(const std::vector<float>& x, int first, int count, int step, bool largest) {
  const auto at = [&](int i) { return x[static_cast<std::size_t>(first + i * step)]; };
  int best = 0;
  for (int i = 1; i < count; ++i)
    if (!std::isnan(at(best)) && (std::isnan(at(i)) || (largest ? at(i) > at(best) : at(i) < at(best)))) best = i;
  return best;
}

TEST_P(Reduce, ExtremaOfEveryDtype) {
  constexpr int kM = 8, kN = 32;
  for (const DType dtype :
       {DType::f64, DType::f32, DType::f16, DType::bf16, DType::fp8e4m3, DType::fp8e5m2, DType::i64, DType::i32,
        DType::i16, DType::i8, DType::u64, DType::u32, DType::u16, DType::u8, DType::bool_})
    for (const int num_warps : some_warps(kM * kN, 2)) {
      SCOPED_TRACE(::testing::Message() << name(dtype) << " num_warps " << num_warps);
      std::vector<float> x(kM * kN);
      const bool is_bool = dtype == DType::bool_, is_signed = !is_bool && info(dtype).is_signed;
      for (float& value : x) value = static_cast<float>(random_() % (is_bool ? 2 : 5)) - (is_signed ? 2.f : 0.f);
      if (is_floating(dtype)) x[5 * kN + 17] = x[5 * kN + 20] = x[6 * kN + 1] = NAN;
      std::vector<Tensor> tensors{tensor_of(DType::f32, x),
                                  tensor_of(DType::f64, std::vector<double>(4 * kM + 6 + 2 * kN, 77.))};
      kernel("extrema", {dtype, std::int64_t{kM}, std::int64_t{kN}}, num_warps).run(GetParam(), {1, 1, 1}, tensors);
      const double* out = tensors[1].data_as<double>();
      const auto expect_element = [&](double actual, int place) {
        const float expected = x[static_cast<std::size_t>(place)];
        EXPECT_TRUE(actual == static_cast<double>(expected) || (std::isnan(actual) && std::isnan(expected)))
            << actual << " instead of " << expected;
      };
      for (int row = 0; row < kM; ++row) {
        const int most = extremum(x, row * kN, kN, 1, true), least = extremum(x, row * kN, kN, 1, false);
        expect_element(out[row], row * kN + most);
        EXPECT_EQ(out[kM + row], most) << "row " << row;
        expect_element(out[2 * kM + row], row * kN + least);
        EXPECT_EQ(out[3 * kM + row], least) << "row " << row;
      }
      expect_element(out[4 * kM], extremum(x, 0, kM * kN, 1, true));
      EXPECT_EQ(out[4 * kM + 1], extremum(x, 0, kM * kN, 1, true));
      EXPECT_EQ(out[4 * kM + 2], extremum(x, 0, kM * kN, 1, false));
      if (!is_floating(dtype)) {
        double sum = 0;
        for (const float value : x) sum += static_cast<double>(value);
        EXPECT_EQ(out[4 * kM + 3], sum);
        EXPECT_EQ(out[4 * kM + 4], 0);
        EXPECT_EQ(out[4 * kM + 5], out[4 * kM]);
      } else {
        EXPECT_TRUE(std::isnan(out[4 * kM + 3]) && std::isnan(out[4 * kM + 4]));
      }
      for (int column = 0; column < kN; ++column) {
        EXPECT_EQ(out[4 * kM + 6 + column], extremum(x, column, kM, kN, true)) << "column " << column;
        EXPECT_EQ(out[4 * kM + 6 + kN + column], extremum(x, column, kM, kN, false)) << "column " << column;
      }
    }
}

TEST_P(Reduce, EveryThreadAndEveryRunGetsTheSameBits) {
  constexpr int kPrograms = 50;
  for (const int n : {4, 32, 64, 512, 2048})
    for (const int num_warps : some_warps(n, 4)) {
      SCOPED_TRACE(::testing::Message() << n << " num_warps " << num_warps);
      std::vector<float> x(static_cast<std::size_t>(n));
      std::normal_distribution<float> draw;
      double sum = 0, squares = 0;
      for (float& value : x) sum += static_cast<double>(value = draw(random_));
      for (const float value : x) squares += std::pow(static_cast<double>(value) - sum / n, 2);
      const auto run = [&] {
        std::vector<Tensor> tensors{
            tensor_of(DType::f32, x),
            tensor_of(DType::f32, std::vector<float>(static_cast<std::size_t>(3 * n * kPrograms), 77.f))};
        kernel("welford", {std::int64_t{n}}, num_warps).run(GetParam(), {kPrograms, 1, 1}, tensors);
        const auto* bits = tensors[1].data_as<std::uint32_t>();
        return std::vector<std::uint32_t>(bits, bits + tensors[1].numel());
      };
      const std::vector<std::uint32_t> out = run();
      for (std::size_t i = 0; i < out.size(); ++i)
        ASSERT_EQ(out[i], out[i / static_cast<std::size_t>(n) % 3 * static_cast<std::size_t>(n)]) << i;
      EXPECT_EQ(std::bit_cast<float>(out[0]), static_cast<float>(n));
      EXPECT_NEAR(static_cast<double>(std::bit_cast<float>(out[static_cast<std::size_t>(n)])), sum / n, 1e-5);
      EXPECT_NEAR(static_cast<double>(std::bit_cast<float>(out[static_cast<std::size_t>(2 * n)])), squares,
                  1e-5 * squares);
      EXPECT_EQ(run(), out);
    }
}

TEST_P(Reduce, FourTilesOfDifferentKinds) {
  constexpr int kM = 16, kN = 32;
  for (const int num_warps : some_warps(kM * kN, 6)) {
    std::vector<std::int32_t> x(kM * kN);
    std::int32_t sum = 0;
    for (auto& value : x) sum += value = static_cast<std::int32_t>(random_() % 1000) - 500;
    std::vector<Tensor> tensors{tensor_of(DType::i32, x), tensor_of(DType::i32, std::vector<std::int32_t>(4, 77))};
    kernel("four", {std::int64_t{kM}, std::int64_t{kN}}, num_warps).run(GetParam(), {1, 1, 1}, tensors);
    const auto* out = tensors[1].data_as<std::int32_t>();
    EXPECT_EQ((std::vector<std::int32_t>(out, out + 4)),
              (std::vector<std::int32_t>{sum, kM * (kM - 1) / 2, kM - 1, 1}));
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, Reduce, ::testing::ValuesIn(devices_with_compilers()),
                         [](const auto& test) { return test.param.is_cuda() ? "cuda" : "cpu"; });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Reduce);

}  // namespace
}  // namespace kiln::test
