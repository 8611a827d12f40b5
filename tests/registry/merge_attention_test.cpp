// What the sweep does not know of merge_attention: numbers that a person worked out, parts that saw nothing, that it
// undoes a split of keys, other libraries' layouts, and what is refused.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "registry/dispatch/dispatch.hpp"
#include "registry/plan/registry.hpp"
#include "tests/support/devices.hpp"
#include "tests/support/error_message.hpp"
#include "tests/support/op_case.hpp"
#include "tests/support/tensor_values.hpp"

namespace kiln::test {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatNear;
using ::testing::HasSubstr;

const Attributes kWithLse = {{"return_lse", true}};

class MergeAttention : public DevicesTest {
 protected:
  static std::vector<Tensor> merge(const std::vector<Tensor>& inputs) {
    return dispatch_gpu_op_all("merge_attention", inputs, kWithLse);
  }
};

TEST_F(MergeAttention, WeighsPartsByTheirSums) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kNothing = -INFINITY;
  const float log3 = std::log(3.0F), log4 = std::log(4.0F);
  const struct {
    const char* what;
    std::vector<float> outs, lses, out, lse;  ///< [parts, 2, 1] and [parts, 2]
  } cases[] = {
      {"one part", {5, 6}, {-3, 7}, {5, 6}, {-3, 7}},
      {"a quarter and three", {1, 0, 5, 8}, {0, log3, log3, 0}, {4, 2}, {log4, log4}},
      {"a part that saw nothing holds NaN", {kNan, 3, 5, kNan}, {kNothing, 1, 2, kNothing}, {5, 3}, {2, 1}},
      {"nobody saw anything", {kNan, 1, 2, 3}, {kNothing, kNothing, kNothing, kNothing}, {0, 0}, {kNothing, kNothing}},
      {"sums beyond what a float holds", {1, 1, 3, 3}, {200, -200, 200, -200}, {2, 2}, {200.693147F, -199.306853F}},
  };
  for (const Device device : devices_)
    for (const auto& [what, outs, lses, out, lse] : cases) {
      const auto parts = static_cast<std::int64_t>(lses.size()) / 2;
      const std::vector<Tensor> results =
          merge({make_f32({parts, 2, 1}, outs, device), make_f32({parts, 2}, lses, device)});
      const std::vector<float> got = read_f32(results[0]), got_lse = read_f32(results[1]);
      for (std::size_t i = 0; i < 2; ++i) {
        EXPECT_THAT(got[i], FloatNear(out[i], 1e-5F)) << what;
        if (lse[i] == kNothing)
          EXPECT_EQ(got_lse[i], kNothing) << what;
        else
          EXPECT_THAT(got_lse[i], FloatNear(lse[i], 1e-4F)) << what;
      }
    }
}

/// A view of a dense tensor with its dimensions in another order.
Tensor permuted(const Tensor& tensor, const std::vector<int>& axes) {
  TensorView view = tensor.view();
  for (std::size_t i = 0; i < axes.size(); ++i) {
    view.shape[static_cast<int>(i)] = tensor.view().shape[axes[i]];
    view.strides[static_cast<int>(i)] = tensor.view().strides[axes[i]];
  }
  return {view, tensor.owner()};
}

TEST_F(MergeAttention, UndoesASplitOfKeysInAttentionsOwnLayout) {
  constexpr std::int64_t kQueries = 5, kHeads = 4, kDim = 24;
  const std::int64_t lengths[] = {7, 0, 40};
  const OpSpec& spec = Registry::process().get("attention");
  for (const Device device : devices_) {
    const DrawnCall drawn(
        spec,
        {{{DType::f32, {2, kQueries, kHeads, kDim}}, {DType::f32, {2, 47, 2, kDim}}, {DType::f32, {2, 47, 2, kDim}}},
         {}},
        3);
    const std::vector<Tensor> all = drawn.on(device), whole = dispatch_gpu_op_all("attention", all, kWithLse);
    const Tensor outs = empty({3, 2, kQueries, kHeads, kDim}, DType::f32, device),
                 lses = empty({3, 2, kHeads, kQueries}, DType::f32, device);
    const auto part_of = [](const Tensor& tensor, std::int64_t part) {
      TensorView view =
          dense_view(tensor.data_as<float>() + part * tensor.view().strides[0], tensor.dtype(), {}, tensor.device());
      for (int axis = 1; axis < tensor.view().ndim(); ++axis) view.shape.push_back(tensor.view().shape[axis]);
      view.strides = contiguous_strides(view.shape);
      return Tensor(view, tensor.owner());
    };
    std::int64_t first = 0;
    for (std::int64_t part = 0; part < 3; ++part) {
      std::vector<Tensor> inputs = all;
      for (const std::size_t i : {std::size_t{1}, std::size_t{2}}) {
        TensorView view = all[i].view();
        view.data = all[i].data_as<float>() + first * view.strides[1];
        view.shape[1] = lengths[part];
        inputs[i] = Tensor(view, all[i].owner());
      }
      first += lengths[part];
      const std::vector<Tensor> outputs = {part_of(outs, part), part_of(lses, part)};
      dispatch_gpu_op_all("attention", inputs, kWithLse, {.outputs = outputs});
    }
    const std::vector<Tensor> merged = merge({outs, permuted(lses, {0, 1, 3, 2})});
    const std::vector<float> got = read_f32(merged[0]), want = read_f32(whole[0]);
    for (std::size_t i = 0; i < want.size(); ++i) ASSERT_NEAR(got[i], want[i], 1e-5) << i;
    const std::vector<float> lse = read_f32(to_device(permuted(merged[1], {0, 2, 1}), Device::cpu())),
                             want_lse = read_f32(whole[1]);
    for (std::size_t i = 0; i < want_lse.size(); ++i) ASSERT_NEAR(lse[i], want_lse[i], 1e-5) << i;
  }
}

// FlashInfer's merge_states has v [tokens, parts, heads, dim] and s [tokens, parts, heads].
TEST_F(MergeAttention, TakesPartsThatLieBehindTokens) {
  for (const Device device : devices_) {
    const Tensor v = make_f32({2, 2, 1, 2}, {1, 2, 3, 4, 5, 6, 7, 8}, device),
                 s = make_f32({2, 2, 1}, {0, 0, -INFINITY, 1}, device);
    const std::vector<Tensor> results = merge({permuted(v, {1, 0, 2, 3}), permuted(s, {1, 0, 2})});
    EXPECT_THAT(read_f32(results[0]), ElementsAre(2, 3, 7, 8));
    EXPECT_THAT(read_f32(results[1]), ElementsAre(FloatNear(std::log(2.0F), 1e-6F), 1));
  }
}

TEST(MergeAttentionErrors, NameWhatIsWrong) {
  const struct {
    std::vector<TensorMeta> inputs;
    const char* message;
  } cases[] = {
      {{{DType::f32, {4}}, {DType::f32, {4}}}, "input 'outs' has shape (4), expected [parts, ..., H, Dv]"},
      {{{DType::f32, {2, 3, 8}}, {DType::f32, {3, 2}}}, "input 'lses' has shape (3, 2), expected (2, 3)"},
      {{{DType::f32, {2, 3, 8}}, {DType::f16, {2, 3}}}, "input 'lses' of dtype f16"},
      {{{DType::f64, {2, 3, 8}}, {DType::f32, {2, 3}}}, "input 'outs' of dtype f64"},
  };
  for (const auto& [inputs, message] : cases)
    EXPECT_THAT(usage_error([&] {
                  dispatch_gpu_op("merge_attention", dense_tensors(inputs, Stream::default_of(Device::cpu())), {});
                }),
                HasSubstr(message));
}

}  // namespace
}  // namespace kiln::test
