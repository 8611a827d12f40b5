#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "tests/support/devices.hpp"
#include "tests/support/tensor_values.hpp"
#include "tests/tl/tile_test.hpp"

// Pipelines of several tiles.

namespace kiln::test {
namespace {

constexpr const char* kKernel = R"(
#include <kiln/tl.hpp>
namespace pipeline_tiles_kernels {

// out[i] = a[i] @ b[i] of 64 x k and k x 64 elements for every second i, by two programs; order[i]: which of its own
// tiles the program said it was, counted from 1.
template <typename T, int NUM_STAGES>
KILN_KERNEL void products(const T* a, const T* b, float* out, int64_t* order, int64_t tiles, int64_t k) {
  constexpr int kSide = 64, kStep = 32;
  const auto rows = tl::expand_dims<1>(tl::arange<kSide>());
  const auto columns = tl::expand_dims<0>(tl::arange<kSide>());
  const int64_t program = tl::program_id(0), programs = tl::num_programs(0);
  auto acc = tl::dot_accumulator<T, kSide, kSide, tl::DotPrecision::tf32>();
  tl::pipeline<NUM_STAGES>(
      tl::cdiv(tiles - program, programs), tl::cdiv(k, kStep),
      [&](int64_t tile, int64_t step) {
        const int64_t first = (program + tile * programs) * kSide * k;
        const auto across = step * kStep + tl::expand_dims<0>(tl::arange<kStep>());
        const auto down = step * kStep + tl::expand_dims<1>(tl::arange<kStep>());
        return tl::Tuple{tl::deferred_load(a + first + (rows * k + across), across < k),
                         tl::deferred_load(b + first + (down * kSide + columns), down < k)};
      },
      [&](const auto& x, const auto& y) { acc = tl::dot<tl::DotPrecision::tf32>(x, y, acc); },
      [&](int64_t tile) {
        const int64_t number = program + tile * programs;
        tl::store(out + number * (kSide * kSide) + (rows * kSide + columns), acc);
        tl::store(order + number, tile + 1);
        acc = tl::dot_accumulator<T, kSide, kSide, tl::DotPrecision::tf32>();
      });
}

}  // namespace pipeline_tiles_kernels
)";

using PipelineTiles = TileTest;

TEST_P(PipelineTiles, AreMadeOneAfterTheOther) {
  constexpr std::int64_t kSide = 64, kPrograms = 2;
  struct Case {
    std::int64_t tiles, k;
  };
  for (const DType dtype : {DType::bf16, DType::f32})
    for (const std::int64_t stages : {1, 2, 3, 4})
      for (const int num_warps : some_warps(kSide * kSide, 4)) {
        TextKernel kernel{
            "tests/tl/pipeline_tiles_kernels.hpp", kKernel, "pipeline_tiles_kernels::products", {dtype, stages}};
        kernel.num_warps = num_warps;
        const TextKernel::Loaded loaded = kernel.load(GetParam());
        // No tile for a program or for both, no step, one, fewer than are on their way, and more than have a place.
        for (const auto& [tiles, k] : {Case{0, 64}, {1, 32}, {2, 0}, {5, 16}, {5, 96}, {4, 40}, {3, 33}, {3, 1160}}) {
          SCOPED_TRACE(::testing::Message() << name(dtype) << ", " << stages << " stages, num_warps " << num_warps
                                            << ", " << tiles << " tiles of " << k);
          const auto count = static_cast<std::size_t>((tiles + 1) * kSide * (k + 1));
          std::vector<double> a(count), b(count);
          for (double& value : a) value = static_cast<double>(random_() % 5) - 2;
          for (double& value : b) value = static_cast<double>(random_() % 5) - 2;
          std::vector<double> expected(static_cast<std::size_t>((tiles + 1) * kSide * kSide), 77),
              order(static_cast<std::size_t>(tiles + 1), 77);
          for (std::int64_t tile = 0; tile < tiles; ++tile) {
            order[static_cast<std::size_t>(tile)] = static_cast<double>(tile / kPrograms + 1);
            for (std::int64_t i = 0; i < kSide; ++i)
              for (std::int64_t j = 0; j < kSide; ++j) {
                double sum = 0;
                for (std::int64_t inner = 0; inner < k; ++inner)
                  sum += a[static_cast<std::size_t>((tile * kSide + i) * k + inner)] *
                         b[static_cast<std::size_t>((tile * k + inner) * kSide + j)];
                expected[static_cast<std::size_t>((tile * kSide + i) * kSide + j)] = sum;
              }
          }
          std::vector<Tensor> tensors{tensor_of_numbers(dtype, a), tensor_of_numbers(dtype, b),
                                      tensor_of_numbers(DType::f32, std::vector<double>(expected.size(), 77)),
                                      tensor_of_numbers(DType::i64, std::vector<double>(order.size(), 77))};
          kernel.run(loaded, GetParam(), {kPrograms, 1, 1}, tensors, {tiles, k});
          ASSERT_EQ(numbers_of(tensors[2]), expected);
          ASSERT_EQ(numbers_of(tensors[3]), order);
        }
      }
}

INSTANTIATE_TEST_SUITE_P(Devices, PipelineTiles, ::testing::ValuesIn(devices_with_compilers()),
                         [](const auto& test) { return test.param.is_cuda() ? "cuda" : "cpu"; });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(PipelineTiles);

}  // namespace
}  // namespace kiln::test
