#include <algorithm>
#include <array>
#include <cstdint>
#include <random>
#include <set>
#include <vector>

#include "core/box_map_table.hpp"
#include "registry/dispatch/dispatch.hpp"
#include "registry/plan/registry.hpp"
#include "registry/user_ops/user_kernel.hpp"
#include "tests/support/devices.hpp"
#include "tests/support/tensor_values.hpp"

namespace kiln::test {
namespace {

using PipelineStrides = DevicesTest;

/// out [64, 64] = a [64, k] @ b [k, 64], whose rows are `stride` elements apart.
constexpr const char* kProduct = R"(#include <kiln/tl.hpp>
namespace tl = kiln::tl;
template <typename T>
KILN_KERNEL void strided_product(const T* a, const T* b, float* out, tl::int64_t k, tl::int64_t stride) {
  const auto rows = tl::expand_dims<1>(tl::arange<64>());
  const auto columns = tl::expand_dims<0>(tl::arange<64>());
  auto acc = tl::dot_accumulator<T, 64, 64>();
  tl::pipeline<3>(
      (k + 63) / 64,
      [&](tl::int64_t step) {
        const auto first = step * 64;
        return tl::Tuple{tl::deferred_load(a + first + (rows * stride + columns), columns + first < k),
                         tl::deferred_load(b + first * stride + (rows * stride + columns), rows + first < k)};
      },
      [&](const auto& x, const auto& y) { acc = tl::dot(x, y, acc); });
  tl::store(out + (rows * 64 + columns), acc);
}
)";

/// Each of these distances is a tensor map of its own on sm_90a, more of them than a loaded kernel has slots for, and
/// some share a slot; every fourth has none.
TEST_F(PipelineStrides, AsManyAsThereAre) {
  UserKernel kernel;
  kernel.name = "strided_product";
  kernel.source = {"strided_product.hpp", kProduct, {}};
  kernel.grid = [](const OpCall&, const Config&) { return std::array<std::int64_t, 3>{1, 1, 1}; };
  Registry::process().register_op(kernel_op(kernel));
  std::mt19937 random(20261124);
  const auto draw = [&](std::int64_t count) {
    std::vector<double> values(static_cast<std::size_t>(count));
    for (double& value : values) value = (static_cast<double>(random() % 9) - 4) / 4;
    return values;
  };
  constexpr std::int64_t kCount = 48;
  std::set<int> slots;
  for (std::int64_t i = 0; i < kCount; ++i) {
    const std::int64_t stride = 256 + 8 * i + (i % 4 == 3 ? 1 : 0), k = 100 + 3 * i;
    slots.insert(BoxMapTable::slot(2 * stride));
    SCOPED_TRACE(::testing::Message() << "rows " << stride << " elements apart, k " << k);
    const auto a = draw(64 * stride), b = draw(k * stride);
    std::vector<double> expected(64 * 64, 0.0);
    for (std::int64_t row = 0; row < 64; ++row)
      for (std::int64_t inner = 0; inner < k; ++inner)
        for (std::int64_t column = 0; column < 64; ++column)
          expected[static_cast<std::size_t>(row * 64 + column)] +=
              a[static_cast<std::size_t>(row * stride + inner)] * b[static_cast<std::size_t>(inner * stride + column)];
    for (const Device device : devices_) {
      SCOPED_TRACE(to_string(device));
      const Tensor x = to_device(tensor_of_numbers(DType::bf16, a), device);
      const Tensor y = to_device(tensor_of_numbers(DType::bf16, b), device);
      const Tensor out = to_device(tensor_of_numbers(DType::f32, std::vector<double>(64 * 64, 77)), device);
      dispatch_gpu_op("strided_product", {x, y, out}, {{"k", k}, {"stride", stride}});
      ASSERT_EQ(numbers_of(to_device(out, Device::cpu())), expected);
    }
  }
  EXPECT_LT(slots.size(), static_cast<std::size_t>(kCount)) << "some should share a slot";
}

}  // namespace
}  // namespace kiln::test
