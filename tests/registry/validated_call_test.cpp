// One value for a call: what follows from inputs and attributes is in it, and an input that is left out is none.

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "core/errors.hpp"
#include "registry/plan/call.hpp"
#include "registry/plan/registry.hpp"
#include "tests/support/error_message.hpp"
#include "tests/support/matchers.hpp"

namespace kiln::test {
namespace {

const OpSpec& op(std::string_view name) {
  return Registry::process().get(name);
}

TEST(ValidatedCall, HoldsWhatFollowsFromInputsAndAttributes) {
  const std::vector<TensorView> inputs(2, dense_view(nullptr, DType::f32, {3, 4}));
  const Call call = validated_call(op("add"), inputs, {{"alpha", std::int64_t{2}}});
  EXPECT_EQ(call.attributes, (Attributes{{"alpha", 2.0}, {"other", std::monostate{}}}));
  ASSERT_EQ(call.metas.size(), 1U);
  EXPECT_EQ(call.metas[0].shape, (Dims{3, 4}));
  EXPECT_TRUE(call.makes_outputs);
  EXPECT_TRUE(call.given_outputs().empty());
  ASSERT_EQ(call.outputs.size(), 1U);
  EXPECT_TRUE(call.outputs[0].is_contiguous());
  EXPECT_EQ(call.device, Device::cpu());
  ASSERT_TRUE(call.stream.has_value());
  EXPECT_EQ(call.stream->device, Device::cpu());
}

TEST(ValidatedCall, KeepsTheOutputsThatAreGiven) {
  const std::vector<TensorView> inputs(2, dense_view(nullptr, DType::f32, {3, 4}));
  const TensorView columns{nullptr, DType::f32, Device::cpu(), {3, 4}, {1, 3}};
  const Call call = validated_call(op("add"), inputs, {}, {.outputs = std::span(&columns, 1)});
  ASSERT_EQ(call.given_outputs().size(), 1U);
  EXPECT_EQ(call.outputs[0].strides, columns.strides);
}

TEST(ValidatedCall, NeedsNoDeviceToBeLookedAt) {
  const std::vector<TensorView> inputs(2, dense_view(nullptr, DType::f32, {3}));
  const Call call = validated_call(op("add"), inputs, {}, {.seen_on = Device::cuda(7)});
  EXPECT_EQ(call.device, Device::cuda(7));
  EXPECT_FALSE(call.stream.has_value());
  EXPECT_EQ(call.outputs.at(0).device, Device::cuda(7));
}

TEST(ValidatedCall, RefusesWhatADispatchRefuses) {
  const std::vector<TensorView> unequal{dense_view(nullptr, DType::f32, {3}), dense_view(nullptr, DType::f32, {4})};
  EXPECT_THROW(validated_call(op("add"), unequal), UsageError);
  const std::vector<TensorView> inputs(2, dense_view(nullptr, DType::f32, {3}));
  EXPECT_THROW(validated_call(op("add"), inputs, {{"alhpa", 1.0}}), UsageError);
  EXPECT_THROW(validated_call(op("add"), inputs, {}, {.has_memory = true}), UsageError) << "null pointers";
  EXPECT_THROW(validated_call(op("add"), inputs, {}, {.stream = Stream::default_of(Device::cuda(0))}), UsageError);
}

/// counts and slot_map are optional.
std::vector<std::optional<TensorView>> gather_inputs() {
  return {dense_view(nullptr, DType::f32, {8, 4}), dense_view(nullptr, DType::f32, {8, 4}),
          dense_view(nullptr, DType::i32, {2, 3, 2})};
}

TEST(ValidatedCall, AnInputThatIsLeftOutIsNone) {
  std::vector<std::optional<TensorView>> inputs = gather_inputs();
  inputs.push_back(std::nullopt);
  inputs.push_back(dense_view(nullptr, DType::i32, {8}));
  const Call call = validated_call(op("sparse_kv_gather"), inputs);
  EXPECT_NE(call.input(2), nullptr);
  EXPECT_EQ(call.input(3), nullptr);
  ASSERT_NE(call.input(4), nullptr);
  const OpCall seen = call.seen_by_spec();
  EXPECT_EQ(seen.inputs.find(3), nullptr);
  EXPECT_NE(seen.inputs.find(4), nullptr);
  EXPECT_EQ(seen.inputs.find(5), nullptr) << "behind the last one";

  const std::vector<TensorView> as_callers_write_it{*inputs[0], *inputs[1], *inputs[2], {}, *inputs[4]};
  EXPECT_EQ(validated_call(op("sparse_kv_gather"), as_callers_write_it).left_out, call.left_out);
}

TEST(ValidatedCall, AScalarWithoutMemoryIsThere) {
  std::vector<std::optional<TensorView>> inputs = gather_inputs();
  inputs.push_back(dense_view(nullptr, DType::i32, {}));  // counts, with the wrong shape
  try {
    validated_call(op("sparse_kv_gather"), inputs);
    ADD_FAILURE() << "taken for an input that is left out";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), HasSubstr("'counts' has shape ()"));
  }
}

TEST(ValidatedCall, OnlyOptionalInputsCanBeLeftOut) {
  const TensorView square = dense_view(nullptr, DType::f32, {3, 3});
  const auto problem = [](std::string_view name, const std::vector<std::optional<TensorView>>& inputs) {
    return usage_message(UsageError::Kind::type, [&] { validated_call(op(name), inputs); });
  };
  EXPECT_THAT(problem("matmul", {square, std::nullopt}), Says("'b' is left out", "needs it"));
  EXPECT_THAT(problem("add", {std::nullopt, square}), Says("'x' is left out", "needs it"));
}

TEST(ValidatedCall, SpecsDoNotSeeWhatIsLeftOutAtTheEnd) {
  const TensorView square = dense_view(nullptr, DType::f32, {3, 3});
  for (const auto& [name, inputs] : std::map<std::string, std::vector<TensorView>>{
           {"add", {square, TensorView{}}}, {"matmul", {square, square, {}}}, {"layer_norm", {square, {}, {}}}}) {
    const Attributes attributes = name == "add" ? Attributes{{"other", 2.0}} : Attributes{};
    const Call call = validated_call(op(name), inputs, attributes);
    EXPECT_EQ(call.inputs.size(), inputs.size()) << name;
    EXPECT_EQ(call.seen_by_spec().inputs.size(), name == "matmul" ? 2U : 1U) << name;
  }
}

TEST(ValidatedCall, GoesOverOtherMemory) {
  float x[3] = {}, out[3] = {};
  const std::vector<TensorView> inputs(1, dense_view(nullptr, DType::f32, {3}));
  const TensorView other = dense_view(x, DType::f32, {3}), result = dense_view(out, DType::f32, {3});
  const Call call = validated_call(op("neg"), inputs).over(std::span(&other, 1), std::span(&result, 1));
  EXPECT_EQ(call.input(0)->data, x);
  EXPECT_EQ(call.outputs.at(0).data, out);
  EXPECT_EQ(call.metas.size(), 1U);
}

}  // namespace
}  // namespace kiln::test
