#include "registry/inspection/random_call_inputs.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "core/errors.hpp"
#include "registry/inspection/random_input.hpp"
#include "registry/plan/registry.hpp"
#include "runtime/memory.hpp"

namespace kiln::test {
namespace {

const OpSpec& add_spec() {
  return Registry::process().get("add");
}

TEST(RandomCallInputsTest, DenseInputsGetWhatTheCommandGivesThem) {
  const Tensor x = empty({3, 4}, DType::f32, Device::cpu());
  const Tensor y = empty({4}, DType::f32, Device::cpu());
  const std::array<TensorView, 2> views{x.view(), y.view()};
  fill_random_inputs(add_spec(), views, {}, 7);
  const Tensor expected = empty({4}, DType::f32, Device::cpu());
  fill_random(expected, {}, 7, 1);
  EXPECT_EQ(std::memcmp(y.data(), expected.data(), 16), 0);
}

TEST(RandomCallInputsTest, StridesChangeNoValue) {
  const Tensor dense = empty({5, 3}, DType::i16, Device::cpu());
  const Tensor memory = empty({40}, DType::i16, Device::cpu());
  for (int i = 0; i < 40; ++i) memory.data_as<std::int16_t>()[i] = -77;
  TensorView strided = dense.view();
  strided.data = memory.data_as<std::int16_t>() + 29;
  strided.strides = {2, -11};  // elements 29 + 2 i - 11 j
  const std::array<TensorView, 2> plain{dense.view(), dense.view()};
  const std::array<TensorView, 2> spread{strided, strided};
  fill_random_inputs(add_spec(), plain, {}, 3);
  fill_random_inputs(add_spec(), spread, {}, 3);
  std::vector<bool> written(40, false);
  for (int i = 0; i < 5; ++i)
    for (int j = 0; j < 3; ++j) {
      const int place = 29 + 2 * i - 11 * j;
      written[static_cast<std::size_t>(place)] = true;
      EXPECT_EQ(memory.data_as<std::int16_t>()[place], dense.data_as<std::int16_t>()[3 * i + j]);
    }
  for (int place = 0; place < 40; ++place)
    if (!written[static_cast<std::size_t>(place)]) {
      EXPECT_EQ(memory.data_as<std::int16_t>()[place], -77) << place;
    }
}

TEST(RandomCallInputsTest, GivenRangesComeFirst) {
  const Tensor x = empty({1000}, DType::f64, Device::cpu());
  const std::array<TensorView, 1> views{x.view()};
  const std::array<InputRange, 1> ranges{InputRange{10, 11}};
  fill_random_inputs(add_spec(), views, {{"other", 2.0}}, 1, {.ranges = ranges});
  for (int i = 0; i < 1000; ++i) {
    EXPECT_GE(x.data_as<double>()[i], 10);
    EXPECT_LT(x.data_as<double>()[i], 11);
  }
}

// What an integer kernel does for these is no division and no power.
TEST(RandomCallInputsTest, IntegersLeaveNoWorkOut) {
  for (const auto& [op, least] : {std::pair("floor_div", 1), std::pair("remainder", 1), std::pair("pow", 0)}) {
    const Tensor x = empty({1000}, DType::i32, Device::cpu()), y = empty({1000}, DType::i32, Device::cpu());
    fill_random_inputs(Registry::process().get(op), std::array<TensorView, 2>{x.view(), y.view()}, {}, 1);
    EXPECT_EQ(*std::min_element(y.data_as<std::int32_t>(), y.data_as<std::int32_t>() + 1000), least) << op;
    EXPECT_LT(*std::min_element(x.data_as<std::int32_t>(), x.data_as<std::int32_t>() + 1000), -5) << op;
  }
}

TEST(RandomCallInputsTest, RefusesWhatTheOpRefuses) {
  const Tensor x = empty({3}, DType::f32, Device::cpu());
  const Tensor y = empty({4}, DType::f32, Device::cpu());
  const std::array<TensorView, 2> views{x.view(), y.view()};
  EXPECT_THROW(fill_random_inputs(add_spec(), views, {}, 1), UsageError);
}

}  // namespace
}  // namespace kiln::test
