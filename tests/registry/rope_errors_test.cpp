// What rope refuses, and what it says of it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "registry/dispatch/dispatch.hpp"
#include "registry/plan/registry.hpp"
#include "tests/support/error_message.hpp"
#include "tests/support/op_case.hpp"
#include "tests/support/tensor_values.hpp"

namespace kiln::test {
namespace {

using ::testing::HasSubstr;

TEST(RopeErrors, NameWhatIsWrong) {
  const auto refused = [](std::vector<TensorMeta> inputs, const Attributes& attributes) {
    return usage_error([&] {
      const Example example{std::move(inputs), attributes};
      const DrawnCall drawn(Registry::process().get("rope"), example, 1);
      dispatch_gpu_op("rope", drawn.on(Device::cpu()), drawn.attributes);
    });
  };
  const TensorMeta none{DType::f32, {0}, true};
  const auto good = [] {
    return std::vector<TensorMeta>{
        {DType::f32, {2, 6, 3, 8}}, {DType::f32, {9, 4}}, {DType::f32, {9, 4}}, {DType::i64, {2, 6}}};
  };
  const auto with = [&](std::size_t input, const TensorMeta& meta) {
    std::vector<TensorMeta> inputs = good();
    inputs[input] = meta;
    return inputs;
  };
  const auto tables = [&](const TensorMeta& table, const TensorMeta& positions) {
    std::vector<TensorMeta> inputs = good();
    inputs[1] = inputs[2] = table;
    inputs[3] = positions;
    return inputs;
  };
  const std::vector<TensorMeta> computed = {{DType::f32, {2, 6, 3, 8}}};
  const auto attribute = [](const char* name, const AttributeValue& value) { return Attributes{{name, value}}; };
  const auto llama3 = [](const char* name, const AttributeValue& value) {
    Attributes attributes{{"scaling", std::string("llama3")}, {"factor", 8.0}};
    attributes.set(name, value);
    return attributes;
  };
  const struct {
    std::vector<TensorMeta> inputs;
    Attributes attributes;
    const char* message;
  } cases[] = {
      {{{DType::f32, {6, 8}}}, {}, "input 'x' has shape (6, 8), expected three dimensions or more, [..., T, H, D]"},
      {with(0, {DType::f32, {2, 6, 3, 7}}),
       {},
       "attribute 'rotary_dim' is 0, all 7 numbers of x's heads, expected an even number from 2 to 1024"},
      {with(0, {DType::f32, {2, 6, 3, 0}}),
       {},
       "'rotary_dim' is 0, all 0 numbers of x's heads, expected an even number"},
      {good(), attribute("rotary_dim", std::int64_t{5}), "attribute 'rotary_dim' is 5, expected an even number from 2"},
      {good(), attribute("rotary_dim", std::int64_t{-2}),
       "attribute 'rotary_dim' is -2, expected an even number from 2"},
      {good(), attribute("rotary_dim", std::int64_t{10}),
       "attribute 'rotary_dim' is 10, but the heads of input 'x' have 8 numbers"},
      {with(2, none), {}, "input 'cos' is given without 'sin'; expected both"},
      {with(1, none), {}, "input 'sin' is given without 'cos'; expected both"},
      {tables({DType::f32, {9, 8}}, none),
       {},
       "input 'cos' has shape (9, 8), expected [T, 4]: a column for each pair of the 8 numbers that turn; of one that "
       "has each number twice, give the first half"},
      {tables({DType::f32, {9, 3}}, {DType::i64, {2, 6}}), {}, "input 'cos' has shape (9, 3), expected [positions, 4]"},
      {tables({DType::f32, {4}}, none), {}, "input 'cos' has shape (4), expected [T, 4]"},
      {tables({DType::f32, {5, 4}}, none), {}, "input 'cos' has 5 rows for the 6 tokens of 'x'"},
      {tables({DType::f32, {3, 6, 4}}, none),
       {},
       "input 'cos' has shape (3, 6, 4), whose dimensions before the last two do not broadcast to (2)"},
      {tables({DType::f32, {2, 6, 4}}, {DType::i64, {2, 6}}),
       {},
       "input 'cos' has shape (2, 6, 4), expected two dimensions beside 'positions'"},
      {with(2, {DType::f32, {8, 4}}), {}, "input 'sin' has shape (8, 4), expected that of 'cos', (9, 4)"},
      {tables({DType::f16, {9, 4}}, none), {}, "input 'cos' is f16, expected f32"},
      {with(2, {DType::f16, {9, 4}}), {}, "input 'sin' is f16, expected f32, as 'cos' is"},
      {with(3, {DType::i64, {3, 6}}),
       {},
       "input 'positions' has shape (3, 6), which does not broadcast to (2, 6), one for each token of 'x' (2, 6, 3, "
       "8)"},
      {with(3, {DType::i64, {1, 2, 6}}), {}, "input 'positions' has shape (1, 2, 6), which does not broadcast"},
      {with(3, {DType::f32, {2, 6}}), {}, "'positions'"},
      {good(), attribute("base", 5e5), "attribute 'base' is given beside inputs 'cos' and 'sin'"},
      {good(), llama3("factor", 8.0), "attribute 'scaling' is given beside inputs 'cos' and 'sin'"},
      {computed, attribute("base", 1.0), "attribute 'base' is 1, expected a finite number above 1"},
      {computed, attribute("base", static_cast<double>(INFINITY)), "attribute 'base' is inf, expected a finite number"},
      {computed, attribute("scaling", std::string("yarn")),
       "attribute 'scaling' is \"yarn\", expected \"none\", \"linear\" or \"llama3\"; for other ways give 'cos' and "
       "'sin'"},
      {computed, attribute("factor", 8.0), "attribute 'factor' is 8 with scaling \"none\", which does not use it"},
      {computed, llama3("factor", 0.5), "attribute 'factor' is 0.5, expected a finite number of at least 1"},
      {computed, llama3("low_freq_factor", 0.0), "attribute 'low_freq_factor' is 0, expected a finite number above 0"},
      {computed, llama3("high_freq_factor", 1.0),
       "'low_freq_factor' and 'high_freq_factor' are 1 and 1, expected the second to be larger"},
      {computed, llama3("original_max_position", std::int64_t{0}),
       "attribute 'original_max_position' is 0, expected the positions"},
  };
  for (const auto& [inputs, attributes, message] : cases) EXPECT_THAT(refused(inputs, attributes), HasSubstr(message));
}

// An output that is x turned around is none of the overlaps that the op allows, and one that is cos neither.
TEST(RopeErrors, OutputsAreTheInputOrElsewhere) {
  const std::vector<float> ones(8, 1);
  const std::vector<Tensor> inputs = {make_f32({2, 2, 2}, ones), make_f32({2, 2, 1}, {1, 1, 1, 1}),
                                      make_f32({2, 2, 1}, {0, 0, 0, 0})};
  TensorView turned = inputs[0].view(), table = inputs[1].view();
  std::swap(turned.strides[0], turned.strides[1]);
  table.shape = {2, 2, 2};
  table.strides = {2, 1, 0};
  for (const TensorView& view : {turned, table}) {
    const std::vector<Tensor> outputs = {Tensor(view, inputs[0].owner())};
    EXPECT_THAT(
        value_error([&] { dispatch_gpu_op("rope", {inputs[0], inputs[1], inputs[2]}, {}, {.outputs = outputs}); }),
        HasSubstr("op 'rope'"));
  }
}

}  // namespace
}  // namespace kiln::test
