#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <vector>

#include "runtime/device_info.hpp"
#include "tests/support/devices.hpp"
#include "tests/support/kernel_code.hpp"
#include "tests/support/tensor_values.hpp"
#include "tests/tl/tile_test.hpp"

// tl::chained_pipeline, with warps that copy and without: steps that fill batches of orders and begin others, tiles
// that the copy engine cannot bring, tiles that are read as values, two pipelines in turn.

namespace kiln::test {
namespace {

constexpr const char* kKernels = R"(
#include <kiln/tl.hpp>
namespace chained_pipeline_kernels {

template <int M, int N, typename T>
KILN_DEVICE auto rows_of(T* data, int64_t first, int64_t stride) {
  return data + ((tl::expand_dims<1>(tl::arange<M>()) + first) * stride + tl::expand_dims<0>(tl::arange<N>()));
}

// For each block of keys: x = q @ k^T; largest = max(largest, rows of x); total += rows of x; acc = x @ v - acc. Values
// of another type than T are cast. PASSES pipelines one behind the other go through the same keys.
template <typename T, typename V, int M, int D, int N, int NUM_STAGES, int PASSES>
KILN_KERNEL void chain(const T* q, const T* k, const V* v, float* out, float* row_max, float* row_sum, int64_t keys,
                       int64_t stride) {
  const auto load_queries = [&] { return tl::deferred_load(rows_of<M, D>(q, 0, D)); };
  const auto queries = [&] {
    if constexpr (PASSES == 1)
      return tl::pipeline_operand<true>(load_queries);
    else
      return tl::dot_operand<true>(load_queries);
  }();
  auto acc = tl::dot_accumulator<T, M, D>();
  auto largest = tl::full<float, M>(-INFINITY);
  auto total = tl::partial_sums(tl::dot_accumulator<T, M, N>());
  auto p = tl::cast<T>(tl::cast<float>(tl::dot_accumulator<T, M, N>()));
  const auto in_keys = [&](int64_t step) { return tl::expand_dims<1>(tl::arange<N>()) + step * N < keys; };
  KILN_NO_UNROLL for (int pass = 0; pass < PASSES; ++pass) {
    tl::chained_pipeline<NUM_STAGES>(
        (keys + N - 1) / N,
        [&](int64_t step) {
          return tl::deferred_load(tl::trans(rows_of<N, D>(k, step * N, stride)), tl::trans(in_keys(step)));
        },
        [&](int64_t step) { return tl::deferred_load(rows_of<N, D>(v, step * N, stride), in_keys(step)); },
        [&](const auto& k_tile) { return tl::dot(queries, k_tile); },
        [&](const auto& x) {
          largest = tl::maximum(largest, tl::max<1>(x));
          total = total + tl::partial_sums(x);
          tl::dot_wait(acc, total);
          acc = acc * -1.f;
          p = tl::cast<T>(x);
        },
        [&](const auto& v_tile) {
          if constexpr (tl::is_same<T, V>)
            acc = tl::dot(static_cast<decltype(p)&&>(p), v_tile, acc);
          else
            acc = tl::dot(static_cast<decltype(p)&&>(p), tl::cast<T>(v_tile), acc);
        });
  }
  tl::store(rows_of<M, D>(out, 0, D), acc);
  tl::store(row_max + tl::arange<M>(), largest);
  tl::store(row_sum + tl::arange<M>(), tl::sum<1>(total));
}

}  // namespace chained_pipeline_kernels
)";

struct Case {
  std::int64_t m, d, n, stages, keys;
  int num_warps, copy_warps;
  std::int64_t passes = 1;
  std::int64_t padding = 0;  ///< elements between rows of keys and values
  DType values = DType::bf16;
};

TextKernel kernel_of(const Case& c) {
  TextKernel made{"tests/tl/chained_pipeline_kernels.hpp",
                  kKernels,
                  "chained_pipeline_kernels::chain",
                  {DType::bf16, c.values, c.m, c.d, c.n, c.stages, c.passes}};
  made.num_warps = c.num_warps;
  made.copy_warps = c.copy_warps;
  return made;
}

class ChainedPipeline : public TileTest {
 protected:
  /// Sums of what is made of these are exact.
  std::vector<double> draw(std::int64_t count) {
    std::vector<double> values(static_cast<std::size_t>(count));
    for (double& value : values) value = static_cast<double>(random_() % 3) - 1;
    return values;
  }
};

TEST_P(ChainedPipeline, GoesThroughEachStepOnce) {
  const std::int64_t lengths[] = {1, 64, 65, 31 * 64, 32 * 64, 32 * 64 + 1, 33 * 64, 64 * 64 + 5};
  std::vector<Case> cases;
  for (const std::int64_t keys : lengths) cases.push_back({128, 64, 64, 2, keys, 8, 4});
  for (const Case& other : {Case{64, 64, 64, 3, 3000, 4, 4},
                            {128, 128, 32, 2, 2000, 8, 4, 3},
                            {128, 64, 160, 2, 1000, 8, 4},
                            {128, 16, 16, 2, 700, 8, 4},
                            {128, 16, 48, 3, 700, 8, 4},
                            {64, 64, 64, 2, 700, 4, 0},
                            {128, 64, 64, 3, 2500, 8, 4, 1, 8},
                            {128, 64, 64, 2, 2500, 8, 4, 1, 1},
                            {128, 64, 64, 2, 300, 8, 4, 2, 1},
                            {128, 64, 64, 2, 2500, 8, 0, 1, 0, DType::fp8e4m3},
                            {16, 64, 32, 2, 300, 1, 0},
                            {128, 64, 64, 2, 0, 8, 4}})
    cases.push_back(other);
  for (const Case& c : cases) {
    // On a GPU extents that are no powers of two are wgmma's.
    if (!std::has_single_bit(static_cast<std::uint64_t>(c.n)) && GetParam().is_cuda() &&
        device_info(GetParam()).target.arch != "sm_90a")
      continue;
    SCOPED_TRACE(::testing::Message() << c.keys << " keys of " << c.d << " by " << c.n << ", " << c.stages
                                      << " stages, " << c.num_warps << "+" << c.copy_warps << " warps, " << c.passes
                                      << " passes, " << c.padding << " between rows, values of " << name(c.values));
    const std::int64_t stride = c.d + c.padding, rows = std::max<std::int64_t>(c.keys, 1);
    const auto q = draw(c.m * c.d), k = draw(rows * stride), v = draw(rows * stride);
    std::vector<double> acc(static_cast<std::size_t>(c.m * c.d)), total(static_cast<std::size_t>(c.m)),
        largest(static_cast<std::size_t>(c.m), -std::numeric_limits<double>::infinity());
    for (std::int64_t pass = 0; pass < c.passes; ++pass)
      for (std::int64_t row = 0; row < c.m; ++row)
        for (std::int64_t first = 0; first < c.keys; first += c.n) {
          const double* const own = &q[static_cast<std::size_t>(row * c.d)];
          double* const sums = &acc[static_cast<std::size_t>(row * c.d)];
          for (std::int64_t i = 0; i < c.d; ++i) sums[i] = -sums[i];
          double& most = largest[static_cast<std::size_t>(row)];
          if (first + c.n > c.keys) most = std::max(most, 0.0);  // keys beyond the end are zeros
          for (std::int64_t key = first; key < std::min(first + c.n, c.keys); ++key) {
            double x = 0;
            for (std::int64_t i = 0; i < c.d; ++i) x += own[i] * k[static_cast<std::size_t>(key * stride + i)];
            most = std::max(most, x);
            total[static_cast<std::size_t>(row)] += x;
            for (std::int64_t i = 0; i < c.d; ++i) sums[i] += x * v[static_cast<std::size_t>(key * stride + i)];
          }
        }
    const auto poison = [](std::int64_t count) {
      return tensor_of_numbers(DType::f32, std::vector<double>(static_cast<std::size_t>(count), 77));
    };
    std::vector<Tensor> tensors{tensor_of_numbers(DType::bf16, q),
                                tensor_of_numbers(DType::bf16, k),
                                tensor_of_numbers(c.values, v),
                                poison(c.m * c.d),
                                poison(c.m),
                                poison(c.m)};
    kernel_of(c).run(GetParam(), {1, 1, 1}, tensors, {c.keys, stride});
    ASSERT_EQ(numbers_of(tensors[3]), acc);
    ASSERT_EQ(numbers_of(tensors[4]), largest);
    ASSERT_EQ(numbers_of(tensors[5]), total);
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, ChainedPipeline, ::testing::ValuesIn(devices_with_compilers()),
                         [](const auto& test) { return test.param.is_cuda() ? "cuda" : "cpu"; });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(ChainedPipeline);

// What warps that copy are for, seen in the code: products of two steps go on together, boxes are asked for by others,
// and what is computed meanwhile stands in front of the wait.
TEST(ChainedPipelineNvrtc, ProductsOfTwoStepsGoOnTogether) {
  if (const std::string problem = nvrtc_problem(); !problem.empty()) GTEST_SKIP() << problem;
  const CompileRequest request = kernel_of({128, 64, 64, 2, 64, 8, 4}).request(parse_cuda_target("sm_90a"));
  const PtxasReport report = expect_no_spills(request);
  EXPECT_FALSE(report.serializes_products);
  EXPECT_NE(report.ptx.find("wgmma.wait_group.sync.aligned 1"), std::string::npos);
  EXPECT_NE(report.ptx.find("setmaxnreg.inc"), std::string::npos);
  EXPECT_NE(report.ptx.find("setmaxnreg.dec"), std::string::npos);
}

}  // namespace
}  // namespace kiln::test
