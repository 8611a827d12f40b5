#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "compiler/tl/cuda/pipeline_places.hpp"
#include "tests/support/devices.hpp"
#include "tests/tl/tile_test.hpp"

namespace kiln::test {
namespace {

constexpr const char* kKernels = R"(
#include <kiln/tl.hpp>
namespace pipeline_kernels {

constexpr int kM = 32, kN = 64, kK = 16;

KILN_DEVICE auto rows() {
  return tl::expand_dims<1>(tl::arange<kM>());
}
KILN_DEVICE auto columns() {
  return tl::expand_dims<0>(tl::arange<kN>());
}

// out = sum over steps of (step + 1) * a[step] @ b[step], of kM x kK and kK x kN elements each; the body counts itself.
template <int NUM_STAGES>
KILN_KERNEL void in_order(const float* a, const float* b, float* out, int64_t* steps, int64_t num_steps) {
  auto acc = tl::dot_accumulator<float, kM, kN>();
  int64_t step = 0;
  tl::pipeline<NUM_STAGES>(
      num_steps,
      [&](int64_t load_step) {
        const auto k = tl::expand_dims<0>(tl::arange<kK>());
        return tl::Tuple{tl::deferred_load(a + load_step * (kM * kK) + (rows() * kK + k)),
                         tl::deferred_load(b + load_step * (kK * kN) + (tl::trans(k) * kN + columns()))};
      },
      [&](const auto& x, const auto& y) {
        ++step;
        acc = acc + tl::dot(x, y, tl::dot_accumulator<float, kM, kN>()) * static_cast<float>(step);
      });
  tl::store(out + (rows() * kN + columns()), acc);
  tl::store(steps, step);
}

// Two pipelines, one after the other in the same memory; the first loads one tile a step, the second three: out = (sum
// of a's tiles) @ identity + a[0] @ b + a[1] @ b.
template <int NUM_STAGES>
KILN_KERNEL void one_after_the_other(const float* a, const float* b, float* out, int64_t num_steps) {
  const auto k = tl::expand_dims<0>(tl::arange<kK>());
  const auto a_tile = [&](int64_t step) { return a + step * (kM * kK) + (rows() * kK + k); };
  auto acc = tl::dot_accumulator<float, kM, kN>();
  const auto identity = tl::where(tl::trans(k) == columns(), tl::full<float, kK, kN>(1.f), tl::zeros<float, kK, kN>());
  tl::pipeline<NUM_STAGES>(
      num_steps, [&](int64_t step) { return tl::deferred_load(a_tile(step)); },
      [&](const auto& x) { acc = tl::dot(x, identity, acc); });
  tl::pipeline<NUM_STAGES>(
      int64_t{1},
      [&](int64_t step) {
        return tl::Tuple{tl::deferred_load(a_tile(step)), tl::deferred_load(a_tile(step + 1)),
                         tl::deferred_load(b + (tl::trans(k) * kN + columns()))};
      },
      [&](const auto& x, const auto& y, const auto& z) { acc = tl::dot(y, z, tl::dot(x, z, acc)); });
  tl::store(out + (rows() * kN + columns()), acc);
}

// Masks that leave out the first elements of rows, whole rows, or everything, and one row for all: out = a @ b with
// a[row, k] = 0 where k < low or row >= m, b[k, :] = line where k > 2 and use_b is true.
template <typename T, int NUM_STAGES>
KILN_KERNEL void masks(const T* a, const T* line, float* out, int64_t m, int64_t low, int64_t use_b) {
  const auto k = tl::expand_dims<0>(tl::arange<kK>());
  auto acc = tl::dot_accumulator<T, kM, kN, tl::DotPrecision::tf32>();
  tl::pipeline<NUM_STAGES>(
      1,
      [&](int64_t) {
        const auto upper = tl::expand_dims<1>(tl::arange<kK>()) > 2;
        return tl::Tuple{tl::deferred_load(a + (rows() * kK + k), (k >= low) & (rows() < m)),
                         tl::deferred_load(line + columns(), upper & (columns() < (use_b != 0 ? kN : 0)))};
      },
      [&](const auto& x, const auto& y) { acc = tl::dot<tl::DotPrecision::tf32>(x, y, acc); });
  tl::store(out + (rows() * kN + columns()), acc);
}

// A pipeline's tiles as values: weights of 4 bits, two to a byte of 16 rows apart, with a scale for each column and
// step, and what the values themselves are.
template <typename T, int M, int N, int K, int NUM_STAGES, bool TURNED>
KILN_KERNEL void values(const T* x, const uint8_t* weights, const float* scales, tl::dot_sum_t<T>* out, T* copied,
                        int64_t* total, int64_t num_steps) {
  constexpr auto kTf32 = tl::DotPrecision::tf32;
  const auto i = tl::expand_dims<1>(tl::arange<M>());
  const auto k = tl::expand_dims<1>(tl::arange<K>());
  const auto j = tl::expand_dims<0>(tl::arange<N>());
  const auto x_k = tl::expand_dims<0>(tl::arange<K>());
  auto acc = tl::dot_accumulator<T, M, N, kTf32>();
  int64_t sum = 0, step = 0;
  tl::pipeline<NUM_STAGES>(
      num_steps,
      [&](int64_t load_step) {
        const auto places = weights + load_step * (K * N);
        const auto x_tile = tl::deferred_load(x + (i * (num_steps * K) + (load_step * K + x_k)));
        if constexpr (TURNED)
          return tl::Tuple{x_tile, tl::deferred_load(places + (k + j * K))};
        else
          return tl::Tuple{x_tile, tl::deferred_load(places + (k * N + j))};
      },
      [&](const auto& x_tile, const auto& packed) {
        const auto scale = tl::load(scales + step * N + j);
        const auto low = tl::cast<float>(packed & 15) - 8.f, high = tl::cast<float>(packed >> 4) - 8.f;
        acc = tl::dot<kTf32>(x_tile, tl::cast<T>((low + high * 2.f) * scale), acc);
        sum += tl::sum(tl::cast<int32_t>(packed));
        tl::store(copied + (i * (num_steps * K) + (step * K + x_k)), x_tile);
        ++step;
      });
  tl::store(out + (i * N + j), acc);
  tl::store(total, sum);
}

// In each round a tile is written that the pipeline then reads: out = sum of (round + 1)^2 a @ a.
template <typename T, int NUM_STAGES>
KILN_KERNEL void what_it_wrote(const T* a, T* scratch, float* out, int64_t num_rounds) {
  const auto i = tl::expand_dims<1>(tl::arange<64>());
  const auto j = tl::expand_dims<0>(tl::arange<64>());
  auto acc = tl::dot_accumulator<T, 64, 64>();
  for (int64_t round = 0; round < num_rounds; ++round) {
    tl::store(scratch + (i * 64 + j), tl::cast<T>(tl::cast<float>(tl::load(a + (i * 64 + j))) * (round + 1)));
    tl::pipeline<NUM_STAGES>(
        1,
        [&](int64_t) {
          return tl::Tuple{tl::deferred_load(scratch + (i * 64 + j)), tl::deferred_load(scratch + (i * 64 + j))};
        },
        [&](const auto& x, const auto& y) { acc = tl::dot(x, y, acc); });
  }
  tl::store(out + (i * 64 + j), acc);
}

// K goes through one matrix and then another, whose lines lie further apart: out = first @ b + second @ b.
template <typename T, int NUM_STAGES>
KILN_KERNEL void of_two_matrices(const T* first, const T* second, const T* b, float* out, int64_t steps_of_each,
                                 int64_t first_stride, int64_t second_stride) {
  const auto i = tl::expand_dims<1>(tl::arange<64>());
  const auto j = tl::expand_dims<0>(tl::arange<64>());
  auto acc = tl::dot_accumulator<T, 64, 64>();
  tl::pipeline<NUM_STAGES>(
      2 * steps_of_each,
      [&](int64_t step) {
        const bool is_first = step < steps_of_each;
        const int64_t begin = (is_first ? step : step - steps_of_each) * 64;
        return tl::Tuple{tl::deferred_load((is_first ? first : second) + begin +
                                           (i * (is_first ? first_stride : second_stride) + j)),
                         tl::deferred_load(b + begin * 64 + (i * 64 + j))};
      },
      [&](const auto& x, const auto& y) { acc = tl::dot(x, y, acc); });
  tl::store(out + (i * 64 + j), acc);
}

// Tiles of float that name their lines, beside ones whose rows are looked up and which become operands by way of
// registers: out = a @ b[rows].
template <int NUM_STAGES>
KILN_KERNEL void of_named_lines(const float* a, const tl::bfloat16* b, const int32_t* rows, float* out, int64_t k) {
  const auto i = tl::expand_dims<1>(tl::arange<64>());
  const auto j = tl::expand_dims<0>(tl::arange<64>());
  auto acc = tl::dot_accumulator<float, 64, 64>();
  tl::pipeline<NUM_STAGES>(
      k / 32,
      [&](int64_t step) {
        const auto across = step * 32 + tl::expand_dims<0>(tl::arange<32>());
        const auto looked = tl::expand_dims<1>(tl::load(rows + step * 32 + tl::arange<32>()));
        return tl::Tuple{tl::deferred_load<tl::TileLines::columns>(a + (i * k + across)),
                         tl::deferred_load(b + (looked * 64 + j))};
      },
      [&](const auto& x, const auto& y) { acc = tl::dot(x, tl::cast<float>(y), acc); });
  tl::store(out + (i * 64 + j), acc);
}

}  // namespace pipeline_kernels
)";

constexpr std::int64_t kM = 32, kN = 64, kK = 16;

TextKernel kernel(const std::string& name, std::vector<TemplateArgument> arguments, int num_warps, int shared_bytes) {
  TextKernel made{"tests/tl/pipeline_kernels.hpp", kKernels, "pipeline_kernels::" + name, std::move(arguments)};
  made.num_warps = num_warps;
  made.shared_bytes = shared_bytes;
  return made;
}

class Pipeline : public TileTest {
 protected:
  /// Small whole numbers, whose products' sums are exact.
  std::vector<float> draw(std::int64_t count) {
    std::vector<float> values(static_cast<std::size_t>(count));
    for (float& value : values) value = static_cast<float>(random_() % 9) - 4.f;
    return values;
  }
  /// a[i, k] * b[k, j] summed, from these offsets on.
  static float product(const std::vector<float>& a, std::int64_t a_offset, const std::vector<float>& b,
                       std::int64_t b_offset, std::int64_t i, std::int64_t j) {
    float sum = 0;
    for (std::int64_t k = 0; k < kK; ++k)
      sum += a[static_cast<std::size_t>(a_offset + i * kK + k)] * b[static_cast<std::size_t>(b_offset + k * kN + j)];
    return sum;
  }
};

constexpr int kTileA = tl::shared_tile_bytes(kM, kK, 4), kTileB = tl::shared_tile_bytes(kK, kN, 4);

TEST_P(Pipeline, EveryStepOnceInOrder) {
  for (const std::int64_t stages : {1, 2, 3, 4})
    for (const int num_warps : some_warps(kM * kN))
      for (const std::int64_t num_steps : {0, 1, 2, 3, 4, 5, 11}) {
        SCOPED_TRACE(::testing::Message()
                     << stages << " stages, num_warps " << num_warps << ", " << num_steps << " steps");
        const auto a = draw((num_steps + 1) * kM * kK), b = draw((num_steps + 1) * kK * kN);
        std::vector<Tensor> tensors{tensor_of(DType::f32, a), tensor_of(DType::f32, b),
                                    tensor_of(DType::f32, std::vector<float>(kM * kN, 77.f)),
                                    tensor_of(DType::i64, std::vector<std::int64_t>{77})};
        kernel("in_order", {stages}, num_warps, tl::pipeline_shared_bytes(static_cast<int>(stages), kTileA, kTileB))
            .run(GetParam(), {1, 1, 1}, tensors, {num_steps});
        ASSERT_EQ(tensors[3].data_as<std::int64_t>()[0], num_steps);
        for (std::int64_t i = 0; i < kM; ++i)
          for (std::int64_t j = 0; j < kN; ++j) {
            float expected = 0;
            for (std::int64_t step = 0; step < num_steps; ++step)
              expected += static_cast<float>(step + 1) * product(a, step * kM * kK, b, step * kK * kN, i, j);
            ASSERT_EQ(tensors[2].data_as<float>()[i * kN + j], expected) << i << ", " << j;
          }
      }
}

TEST_P(Pipeline, AnyNumberOfTilesAndOneAfterTheOther) {
  for (const std::int64_t stages : {1, 3})
    for (const int num_warps : some_warps(kM * kN, 2)) {
      constexpr std::int64_t kSteps = 4;
      const auto a = draw(kSteps * kM * kK), b = draw(kK * kN);
      std::vector<Tensor> tensors{tensor_of(DType::f32, a), tensor_of(DType::f32, b),
                                  tensor_of(DType::f32, std::vector<float>(kM * kN, 77.f))};
      kernel("one_after_the_other", {stages}, num_warps,
             tl::pipeline_shared_bytes(static_cast<int>(stages), kTileA, kTileA, kTileB))
          .run(GetParam(), {1, 1, 1}, tensors, {kSteps});
      for (std::int64_t i = 0; i < kM; ++i)
        for (std::int64_t j = 0; j < kN; ++j) {
          float expected = product(a, 0, b, 0, i, j) + product(a, kM * kK, b, 0, i, j);
          if (j < kK)
            for (std::int64_t step = 0; step < kSteps; ++step)
              expected += a[static_cast<std::size_t>((step * kM + i) * kK + j)];
          ASSERT_EQ(tensors[2].data_as<float>()[i * kN + j], expected)
              << stages << " stages, num_warps " << num_warps << ": " << i << ", " << j;
        }
    }
}

TEST_P(Pipeline, MasksOfAllForms) {
  struct Case {
    std::int64_t m, low, use_b;
  };
  for (const int num_warps : some_warps(kM * kN, 2))
    for (const Case& c : {Case{kM, 0, 1}, {kM, 1, 1}, {kM - 3, 6, 1}, {kM, 0, 0}, {0, 0, 1}, {kM, kK, 1}}) {
      const auto a = draw(kM * kK), line = draw(kN);
      std::vector<Tensor> tensors{tensor_of(DType::f32, a), tensor_of(DType::f32, line),
                                  tensor_of(DType::f32, std::vector<float>(kM * kN, 77.f))};
      kernel("masks", {DType::f32, std::int64_t{2}}, num_warps, tl::pipeline_shared_bytes(2, kTileA, kTileB))
          .run(GetParam(), {1, 1, 1}, tensors, {c.m, c.low, c.use_b});
      for (std::int64_t i = 0; i < kM; ++i)
        for (std::int64_t j = 0; j < kN; ++j) {
          float expected = 0;
          for (std::int64_t k = std::max<std::int64_t>(c.low, 3); k < kK; ++k)
            if (i < c.m && c.use_b != 0)
              expected += a[static_cast<std::size_t>(i * kK + k)] * line[static_cast<std::size_t>(j)];
          ASSERT_EQ(tensors[2].data_as<float>()[i * kN + j], expected)
              << "num_warps " << num_warps << ", m " << c.m << ", low " << c.low << ", b " << c.use_b << ": " << i
              << ", " << j;
        }
    }
}

TEST_P(Pipeline, TilesAsValues) {
  struct Case {
    DType dtype;
    std::int64_t m, n, k, stages;
    bool is_turned;
    int num_warps;
  };
  for (const Case& c : {Case{DType::bf16, 16, 64, 32, 3, false, 4}, Case{DType::f16, 64, 64, 64, 4, false, 4},
                        Case{DType::bf16, 64, 128, 32, 2, true, 8}, Case{DType::f16, 128, 64, 64, 3, true, 4},
                        Case{DType::f32, 32, 32, 32, 1, false, 2}, Case{DType::f32, 64, 64, 32, 3, false, 4},
                        Case{DType::i8, 128, 64, 64, 3, true, 8}, Case{DType::i8, 64, 64, 128, 4, false, 4}})
    for (const std::int64_t num_steps : {1, 2, 7}) {
      SCOPED_TRACE(::testing::Message() << name(c.dtype) << " " << c.m << "x" << c.n << "x" << c.k << ", " << c.stages
                                        << " stages, " << num_steps << " steps");
      const std::int64_t depth = num_steps * c.k;
      const auto whole = [&](std::int64_t count, unsigned int values, double least) {
        std::vector<double> drawn(static_cast<std::size_t>(count));
        for (double& number : drawn) number = least + static_cast<double>(random_() % values);
        return drawn;
      };
      const auto x = whole(c.m * depth, 9, -4), packed = whole(depth * c.n, 256, 0),
                 scales = whole(num_steps * c.n, 4, 1);
      std::vector<double> expected(static_cast<std::size_t>(c.m * c.n));
      std::vector<Tensor> tensors{
          tensor_of_numbers(c.dtype, x),
          tensor_of_numbers(DType::u8, packed),
          tensor_of_numbers(DType::f32, scales),
          tensor_of_numbers(c.dtype == DType::i8 ? DType::i32 : DType::f32, std::vector<double>(expected.size(), 77)),
          tensor_of_numbers(c.dtype, std::vector<double>(x.size(), 77)),
          tensor_of_numbers(DType::i64, std::vector<double>{77})};
      kernel("values", {c.dtype, c.m, c.n, c.k, c.stages, c.is_turned}, c.num_warps, 0)
          .run(GetParam(), {1, 1, 1}, tensors, {num_steps});
      double total = 0;
      for (const double byte : packed) total += byte;
      for (std::int64_t i = 0; i < c.m; ++i)
        for (std::int64_t j = 0; j < c.n; ++j)
          for (std::int64_t k = 0; k < depth; ++k) {
            const std::int64_t step = k / c.k, inner = k % c.k;
            const auto byte = static_cast<int>(
                packed[static_cast<std::size_t>(step * c.k * c.n + (c.is_turned ? inner + j * c.k : inner * c.n + j))]);
            const double weight =
                (byte % 16 - 8 + (byte / 16 - 8) * 2) * scales[static_cast<std::size_t>(step * c.n + j)];
            expected[static_cast<std::size_t>(i * c.n + j)] += x[static_cast<std::size_t>(i * depth + k)] * weight;
          }
      ASSERT_EQ(numbers_of(tensors[3]), expected);
      ASSERT_EQ(numbers_of(tensors[4]), x);
      ASSERT_EQ(numbers_of(tensors[5]), std::vector<double>{total});
    }
}

TEST_P(Pipeline, LinesNeedNotLieAsFarApartInEachStep) {
  constexpr std::int64_t kSide = 64, kStepsOfEach = 3, kDepth = kStepsOfEach * kSide;
  for (const std::int64_t stages : {2, 3, 4}) {
    SCOPED_TRACE(::testing::Message() << stages << " stages");
    const std::int64_t strides[] = {kDepth + 64, 2 * kDepth + 16};
    const std::vector<float> matrices[] = {draw(kSide * strides[0]), draw(kSide * strides[1])},
                             b = draw(kDepth * kSide);
    const auto tensor = [](const std::vector<float>& values) {
      return tensor_of_numbers(DType::bf16, {values.begin(), values.end()});
    };
    std::vector<Tensor> tensors{tensor(matrices[0]), tensor(matrices[1]), tensor(b),
                                tensor_of(DType::f32, std::vector<float>(kSide * kSide, 77.f))};
    kernel("of_two_matrices", {DType::bf16, stages}, 4, 0)
        .run(GetParam(), {1, 1, 1}, tensors, {kStepsOfEach, strides[0], strides[1]});
    for (std::int64_t i = 0; i < kSide; ++i)
      for (std::int64_t j = 0; j < kSide; ++j) {
        float expected = 0;
        for (std::size_t m = 0; m < 2; ++m)
          for (std::int64_t k = 0; k < kDepth; ++k)
            expected +=
                matrices[m][static_cast<std::size_t>(i * strides[m] + k)] * b[static_cast<std::size_t>(k * kSide + j)];
        ASSERT_EQ(tensors[3].data_as<float>()[i * kSide + j], expected) << i << ", " << j;
      }
  }
}

TEST_P(Pipeline, TilesThatNameTheirLinesBesideRowsThatAreLookedUp) {
  constexpr std::int64_t kSide = 64, kDepth = 320, kRows = 50;
  for (const std::int64_t stages : {2, 3, 4}) {
    SCOPED_TRACE(::testing::Message() << stages << " stages");
    const std::vector<float> a = draw(kSide * kDepth), b = draw(kRows * kSide);
    std::vector<std::int32_t> rows(kDepth);
    for (std::int32_t& row : rows) row = static_cast<std::int32_t>(random_() % kRows);
    std::vector<Tensor> tensors{tensor_of(DType::f32, a), tensor_of_numbers(DType::bf16, {b.begin(), b.end()}),
                                tensor_of(DType::i32, rows),
                                tensor_of(DType::f32, std::vector<float>(kSide * kSide, 77.f))};
    kernel("of_named_lines", {stages}, 4, 0).run(GetParam(), {1, 1, 1}, tensors, {kDepth});
    for (std::int64_t i = 0; i < kSide; ++i)
      for (std::int64_t j = 0; j < kSide; ++j) {
        float expected = 0;
        for (std::int64_t k = 0; k < kDepth; ++k)
          expected += a[static_cast<std::size_t>(i * kDepth + k)] *
                      b[static_cast<std::size_t>(rows[static_cast<std::size_t>(k)] * kSide + j)];
        ASSERT_EQ(tensors[3].data_as<float>()[i * kSide + j], expected) << i << ", " << j;
      }
  }
}

TEST_P(Pipeline, ReadsWhatItsProgramWrote) {
  constexpr std::int64_t kRounds = 6, kSide = 64;
  for (const auto& [dtype, stages] : {std::pair<DType, std::int64_t>{DType::bf16, 2},
                                      {DType::bf16, 3},
                                      {DType::bf16, 4},
                                      {DType::fp8e4m3, 3},
                                      {DType::fp8e4m3, 4}}) {
    SCOPED_TRACE(::testing::Message() << name(dtype) << ", " << stages << " stages");
    std::vector<double> a(kSide * kSide), expected(kSide * kSide);
    for (double& value : a) value = static_cast<double>(random_() % 3) - 1;
    for (std::int64_t i = 0; i < kSide; ++i)
      for (std::int64_t j = 0; j < kSide; ++j)
        for (std::int64_t k = 0; k < kSide; ++k)
          for (std::int64_t round = 1; round <= kRounds; ++round)
            expected[static_cast<std::size_t>(i * kSide + j)] += static_cast<double>(round * round) *
                                                                 a[static_cast<std::size_t>(i * kSide + k)] *
                                                                 a[static_cast<std::size_t>(k * kSide + j)];
    std::vector<Tensor> tensors{tensor_of_numbers(dtype, a),
                                tensor_of_numbers(dtype, std::vector<double>(a.size(), 64)),
                                tensor_of_numbers(DType::f32, std::vector<double>(a.size(), 77))};
    kernel("what_it_wrote", {dtype, stages}, 4, 0).run(GetParam(), {1, 1, 1}, tensors, {kRounds});
    ASSERT_EQ(numbers_of(tensors[2]), expected);
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, Pipeline, ::testing::ValuesIn(devices_with_compilers()),
                         [](const auto& test) { return test.param.is_cuda() ? "cuda" : "cpu"; });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Pipeline);

}  // namespace
}  // namespace kiln::test
