#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/nvrtc_compiler.hpp"
#include "tests/support/devices.hpp"
#include "tests/support/tensor_values.hpp"
#include "tests/tl/text_kernel.hpp"

namespace kiln::test {
namespace {

constexpr std::int64_t kM = 8, kN = 16;

constexpr const char* kKernels = R"(
#include <kiln/tl.hpp>

/// out[i, j] = x[i, j] within m rows and columns 2 ... n - 1, by masks of one dimension; behind it its transpose, and
/// then how many rows and columns there are, and columns from the last one back.
template <typename T, int M, int N>
KILN_KERNEL void masks_kernel(const T* x, T* out, int64_t m, int64_t n) {
  const auto rows = tl::arange<M>();
  const auto columns = tl::arange<N>();
  const auto row_mask = tl::expand_dims<1>(rows < m);
  const auto mask = row_mask & tl::expand_dims<0>((columns < n) & (columns > 1));
  const auto places = tl::expand_dims<1>(rows) * N + tl::expand_dims<0>(columns);
  tl::store(out + places, tl::load(x + places, mask), tl::broadcast_to<M, N>(row_mask) && mask);
  tl::store(out + M * N + tl::trans(places), tl::trans(tl::load(x + places)), tl::trans(mask));
  T* counts = out + 2 * M * N;
  tl::store(counts, tl::sum(tl::cast<int32_t>(rows < m)));
  tl::store(counts + 1, tl::sum(tl::cast<float>((columns < n) & (columns > 1))));
  tl::store(counts + 2, tl::sum(tl::reshape<2, N / 2>(columns < n)));
  tl::store(counts + 3 + (n - 1 - columns), columns, columns < n);
}
)";

TextKernel masks_kernel() {
  return {"mask_shapes.hpp", kKernels, "masks_kernel", {DType::f32, kM, kN}};
}

TEST(MaskShapes, FollowThoseOfTheirIndices) {
  constexpr int kRows = 5, kColumns = 11;
  std::vector<float> x(kM * kN);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i + 1);
  for (const Device device : devices_with_compilers()) {
    SCOPED_TRACE(to_string(device));
    std::vector<Tensor> tensors{tensor_of(DType::f32, x),
                                tensor_of(DType::f32, std::vector<float>(2 * kM * kN + 3 + kN, 77.f))};
    masks_kernel().run(device, {1, 1, 1}, tensors, {kRows, kColumns});
    const float* out = tensors[1].data_as<float>();
    for (std::int64_t i = 0; i < kM; ++i)
      for (std::int64_t j = 0; j < kN; ++j) {
        const std::int64_t place = i * kN + j;
        const float expected = i < kRows && j > 1 && j < kColumns ? x[static_cast<std::size_t>(place)] : 77.f;
        EXPECT_EQ(out[place], expected) << i << ", " << j;
        EXPECT_EQ(out[kM * kN + place], expected) << i << ", " << j << ", transposed twice";
      }
    const float* counts = out + 2 * kM * kN;
    EXPECT_EQ(counts[0], kRows);
    EXPECT_EQ(counts[1], kColumns - 2);
    EXPECT_EQ(counts[2], kColumns);
    for (int j = 0; j < kN; ++j) EXPECT_EQ(counts[3 + j], j < kColumns ? kColumns - 1 - j : 77) << j;
  }
}

TEST(MaskShapes, StaySymbolicOnGpus) {
  if (const std::string problem = nvrtc_problem(); !problem.empty()) GTEST_SKIP() << problem;
  EXPECT_NO_THROW(compiler_for(DeviceType::cuda).compile(masks_kernel().request(parse_cuda_target("sm_90a"))));
}

}  // namespace
}  // namespace kiln::test
