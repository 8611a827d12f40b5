#include "registry/dispatch/pack_weight.hpp"

#include <vector>

#include "registry/dispatch/dispatch.hpp"
#include "tests/support/devices.hpp"
#include "tests/support/error_message.hpp"
#include "tests/support/matchers.hpp"
#include "tests/support/tensor_values.hpp"
#include "tests/support/tensor_views.hpp"

namespace kiln::test {
namespace {

class PackWeight : public DevicesTest {};

std::vector<float> counted(std::int64_t count) {
  std::vector<float> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 7) - 3;
  return values;
}

TEST_F(PackWeight, LinearGivesTheSameWithIt) {
  constexpr std::int64_t kRows = 130, kOut = 200, kIn = 333;
  for (const Device device : available_devices())
    for (const DType dtype : {DType::bf16, DType::f32}) {
      SCOPED_TRACE(to_string(device));
      const auto as_dtype = [&](const Tensor& x) { return dispatch_gpu_op("cast", {x}, {{"dtype", dtype}}); };
      const Tensor x = as_dtype(make_f32({kRows, kIn}, counted(kRows * kIn), device));
      const Tensor weight = as_dtype(make_f32({kOut, kIn}, counted(kOut * kIn), device));
      const Tensor packed = pack_weight(weight);
      EXPECT_EQ(packed.shape(), weight.shape());
      EXPECT_EQ(packed.data() == weight.data(), !device.is_cuda());
      if (device.is_cuda()) {
        EXPECT_EQ(packed.strides()[0] * itemsize_bytes(dtype) % 128, 0);
      }
      const auto product = [&](const Tensor& w) {
        return read_f32(dispatch_gpu_op("linear", {x, w}, {{"out_dtype", DType::f32}}));
      };
      EXPECT_EQ(product(packed), product(weight));
    }
}

TEST_F(PackWeight, AWeightStoredTheOtherWayGetsRowsWhereItsOwnAreNotWhole) {
  for (const Device device : available_devices()) {
    const Tensor stored = make_f32({64, 49}, counted(64 * 49), device);
    const Tensor weight = view_of(stored, {49, 64}, {1, 49});
    const Tensor packed = pack_weight(weight);
    const Tensor x = make_f32({3, 64}, counted(3 * 64), device);
    EXPECT_EQ(read_f32(dispatch_gpu_op("linear", {x, packed})), read_f32(dispatch_gpu_op("linear", {x, weight})));
    EXPECT_EQ(packed.strides()[1], device.is_cuda() ? 1 : 49);
    // What lies well is not packed again.
    EXPECT_EQ(pack_weight(packed).data(), packed.data());
    const Tensor whole = view_of(stored, {48, 64}, {1, 48});
    EXPECT_EQ(pack_weight(whole).data(), whole.data());
  }
}

TEST_F(PackWeight, OneDimensionIsRefused) {
  EXPECT_THAT(usage_message([] { pack_weight(make_f32({1, 2, 3})); }), Says("(3)", "expected 2 dimensions"));
}

}  // namespace
}  // namespace kiln::test
