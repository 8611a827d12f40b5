// What the sweep does not know of attention: numbers that a person worked out, lengths that broke others, how far off a
// 16-bit computation may be, and what is refused.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "registry/dispatch/dispatch.hpp"
#include "registry/plan/registry.hpp"
#include "tests/support/devices.hpp"
#include "tests/support/error_message.hpp"
#include "tests/support/op_case.hpp"
#include "tests/support/plain_attention.hpp"
#include "tests/support/planned_call.hpp"
#include "tests/support/sweep_amount.hpp"
#include "tests/support/tensor_values.hpp"

namespace kiln::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Attention : public DevicesTest {
 protected:
  /// Queries of 0, so that all scores are 0 before anything is added, and values of one number; one request and head.
  static std::vector<Tensor> flat(std::int64_t queries, const std::vector<float>& values, Device device) {
    const auto keys = static_cast<std::int64_t>(values.size());
    return {make_f32({1, queries, 1, 1}, std::vector<float>(static_cast<std::size_t>(queries)), device),
            make_f32({1, keys, 1, 1}, std::vector<float>(values.size()), device),
            make_f32({1, keys, 1, 1}, values, device)};
  }
};

TEST_F(Attention, KeysAreSeenByTheirPlace) {
  const struct {
    Attributes attributes;
    std::int64_t queries;
    std::vector<float> expected;
  } cases[] = {
      {{}, 2, {4, 4}},
      {{{"causal", std::string("top_left")}}, 2, {1, 2}},
      {{{"causal", std::string("bottom_right")}}, 2, {2, 4}},
      {{{"causal", std::string("top_left")}}, 4, {1, 2, 4, 4}},
      {{{"causal", std::string("bottom_right")}}, 4, {0, 1, 2, 4}},
      {{{"window", std::vector<std::int64_t>{0, 0}}}, 3, {1, 3, 8}},
      {{{"window", std::vector<std::int64_t>{1, -1}}}, 3, {4, 4, 5.5F}},
      {{{"window", std::vector<std::int64_t>{-1, 1}}, {"causal", std::string("top_left")}}, 3, {1, 2, 4}},
      {{{"window", std::vector<std::int64_t>{1, 0}}}, 5, {0, 0, 1, 2, 5.5F}},
      {{{"scale", 1e-310}}, 1, {4}},  // 0 in f32
  };
  for (const Device device : devices_)
    for (const auto& [attributes, queries, expected] : cases) {
      std::vector<Tensor> inputs = flat(queries, {1, 3, 8}, device);
      EXPECT_EQ(read_f32(dispatch_gpu_op("attention", inputs, attributes)), expected) << queries << " queries";
    }
}

TEST_F(Attention, ItsCostIsThatOfThePairsThatAreSeen) {
  const std::vector<std::int64_t> lengths{0, 1, 2, 5, 9};
  const std::vector<std::vector<std::int64_t>> windows{{-1, -1}, {0, 0}, {2, -1}, {-1, 1}, {3, 1}, {1, 20}};
  for (const std::int64_t queries : lengths)
    for (const std::int64_t keys : lengths)
      for (const std::string causal : {"none", "top_left", "bottom_right"})
        for (const std::vector<std::int64_t>& window : windows) {
          const std::vector<TensorView> inputs{shaped(DType::f32, {2, queries, 3, 8}),
                                               shaped(DType::f32, {2, keys, 3, 8}),
                                               shaped(DType::f32, {2, keys, 3, 16})};
          const PlannedCall call("attention", inputs, {{"causal", causal}, {"window", window}});
          const std::int64_t diagonal = causal == "top_left" ? 0 : keys - queries;
          double pairs = 0;
          for (std::int64_t query = 0; query < queries; ++query)
            for (std::int64_t key = 0; key < keys; ++key) {
              const std::int64_t behind = key - query - diagonal;
              pairs += (window[0] < 0 || -behind <= window[0]) && (window[1] < 0 || behind <= window[1]) &&
                       (causal == "none" || behind <= 0);
            }
          EXPECT_EQ(call.spec.cost(call.call()).flops, 2 * (8 + 16) * pairs * 2 * 3)
              << queries << " queries, " << keys << " keys, " << causal << ", window " << window[0] << " " << window[1];
        }
}

TEST_F(Attention, LogsOfSumsAreNaturalAndSinksCount) {
  const Attributes attributes = {{"causal", std::string("bottom_right")}, {"return_lse", true}};
  for (const Device device : devices_) {
    std::vector<Tensor> inputs = flat(3, {2, 4}, device);
    std::vector<Tensor> results = dispatch_gpu_op_all("attention", inputs, attributes);
    EXPECT_THAT(read_f32(results[0]), ElementsAre(0, 2, 3));
    EXPECT_THAT(read_f32(results[1]), ElementsAre(-INFINITY, 0, testing::FloatNear(std::log(2.0F), 1e-6F)));
    inputs.resize(5);
    inputs.push_back(make_f32({1}, {0}, device));
    results = dispatch_gpu_op_all("attention", inputs, attributes);
    EXPECT_THAT(read_f32(results[0]), ElementsAre(0, 1, 2));
    EXPECT_THAT(read_f32(results[1]),
                ElementsAre(0, testing::FloatNear(std::log(2.0F), 1e-6F), testing::FloatNear(std::log(3.0F), 1e-6F)));
  }
}

/// q, k and v, [B, S, H, D].
std::vector<TensorMeta> heads(DType dtype, std::int64_t queries, std::int64_t keys, std::int64_t query_heads,
                              std::int64_t key_heads, std::int64_t dim) {
  return {
      {dtype, {1, queries, query_heads, dim}}, {dtype, {1, keys, key_heads, dim}}, {dtype, {1, keys, key_heads, dim}}};
}

TEST_F(Attention, LengthsAndGroupsThatBrokeOthers) {
  const struct {
    std::int64_t queries, keys, query_heads, key_heads;
    std::vector<std::int64_t> window;
  } cases[] = {
      {239, 1, 3, 1, {-1, -1}},     {799, 3, 7, 1, {-1, -1}},  {113, 203, 8, 1, {-1, -1}},
      {1023, 1024, 1, 1, {-1, -1}}, {1, 799, 8, 8, {-1, -1}},  {0, 5, 2, 1, {-1, -1}},
      {5, 0, 2, 1, {-1, -1}},       {203, 113, 6, 2, {20, 0}}, {1024, 1023, 1, 1, {300, 7}},
  };
  const OpSpec& spec = Registry::process().get("attention");
  std::uint64_t seed = 0;
  for (const Device device : devices_)
    for (const auto& test : cases)
      for (const DType dtype : one_drawn<DType>({DType::f32, DType::bf16}))
        for (const char* causal : {"none", "top_left", "bottom_right"}) {
          const Attributes attributes = {
              {"causal", std::string(causal)}, {"window", test.window}, {"return_lse", true}};
          const OpCase made(spec,
                            {heads(dtype, test.queries, test.keys, test.query_heads, test.key_heads, 32), attributes},
                            device, ++seed);
          const std::vector<Tensor> results = dispatch_gpu_op_all("attention", made.inputs(), attributes);
          EXPECT_EQ(made.difference(results, Stream::default_of(device)), "")
              << test.queries << " x " << test.keys << " " << name(dtype) << " " << causal;
          const std::vector<Tensor> again = dispatch_gpu_op_all("attention", made.inputs(), attributes);
          EXPECT_EQ(values_of<std::uint8_t>(again[0]), values_of<std::uint8_t>(results[0])) << "other bits";
        }
}

// On sm_90a by kernels of their own, in front of attention's; keys only where queries have 16 bits. Layouts, scales and
// keys that are no whole tile go through these too.
TEST_F(Attention, NumbersOf8BitsAreCastOnceForManyQueries) {
  const struct {
    DType query;
    std::int64_t queries, keys, query_heads, key_heads, dim;
    bool heads_first;
    std::size_t launches;
  } cases[] = {
      {DType::fp8e5m2, 1000, 901, 6, 1, 128, false, 2},
      {DType::bf16, 515, 1200, 8, 2, 80, true, 3},
      {DType::fp8e4m3, 700, 1100, 14, 2, 40, true, 3},  // a head's second tile has fewer than 32 numbers
      {DType::fp8e4m3, 300, 50, 6, 1, 128, false, 1},   // too little to do
  };
  const OpSpec& spec = Registry::process().get("attention");
  std::uint64_t seed = 0;
  for (const auto& test : cases) {
    Example example{heads(test.query, test.queries, test.keys, test.query_heads, test.key_heads, test.dim),
                    {{"causal", std::string("bottom_right")}, {"return_lse", true}}};
    const DType key = is_fp8(test.query) ? test.query : DType::fp8e4m3;
    example.inputs[1].dtype = example.inputs[2].dtype = key;
    if (test.heads_first) {
      example.attributes.set("layout", std::string("BHSD"));
      for (TensorMeta& meta : example.inputs) std::swap(meta.shape[1], meta.shape[2]);
    }
    example.inputs.resize(7, TensorMeta::left_out());
    for (int i = 0; i < 2; ++i) example.inputs.push_back({DType::f32, {1, test.key_heads}});
    SCOPED_TRACE(fmt::format("{} queries of {}, {} keys", test.queries, name(test.query), test.keys));
    EXPECT_EQ(PlannedCall("attention", views_of(example), example.attributes).plan(kHopper).launches.size(),
              test.launches);
    for (const Device device : devices_) {
      const OpCase made(spec, example, device, ++seed);
      const std::vector<Tensor> results = dispatch_gpu_op_all("attention", made.inputs(), example.attributes);
      EXPECT_EQ(made.difference(results, Stream::default_of(device)), "");
    }
  }
}

// FlashAttention's bound (tests/support/plain_attention.hpp).
TEST_F(Attention, ErrorsAreThoseOf16Bits) {
  constexpr std::int64_t kLength = 200, kDim = 64;
  const OpSpec& spec = Registry::process().get("attention");
  for (const Device device : devices_) {
    const Example example{heads(DType::bf16, kLength, kLength, 1, 1, kDim), {}};
    const DrawnCall drawn(spec, example, 7);
    const PlainAttention plain(numbers_of(drawn.tensors[0]), numbers_of(drawn.tensors[1]), numbers_of(drawn.tensors[2]),
                               kDim);
    EXPECT_GT(plain.error, 0);
    EXPECT_LE(plain.error_of(numbers_of(to_device(dispatch_gpu_op("attention", drawn.on(device)), Device::cpu()))),
              plain.allowed());
  }
}

TEST(AttentionErrors, NameWhatIsWrong) {
  const auto refused = [](std::vector<TensorMeta> inputs, const Attributes& attributes) {
    return usage_error([&] {
      const Example example{std::move(inputs), attributes};
      const DrawnCall drawn(Registry::process().get("attention"), example, 1);
      dispatch_gpu_op("attention", drawn.on(Device::cpu()), drawn.attributes);
    });
  };
  const auto good = [] { return heads(DType::f32, 4, 5, 6, 2, 32); };
  const auto with = [&](std::size_t input, const TensorMeta& meta) {
    std::vector<TensorMeta> inputs = good();
    while (inputs.size() <= input) inputs.push_back({DType::f32, {}, true});
    inputs[input] = meta;
    return inputs;
  };
  const struct {
    std::vector<TensorMeta> inputs;
    Attributes attributes;
    const char* message;
  } cases[] = {
      {with(0, {DType::f32, {4, 6, 32}}), {}, "input 'q' has shape (4, 6, 32), expected four dimensions, [B, S, H, D]"},
      {with(0, {DType::f32, {1, 4, 5, 32}}), {}, "input 'q' has 5 heads and 'k' 2; expected a multiple"},
      {with(0, {DType::f32, {1, 4, 6, 40}}), {}, "input 'k' has 32 numbers a head, expected 40, as 'q' has"},
      {with(1, {DType::bf16, {1, 5, 2, 32}}),
       {},
       "input 'k' is bf16, expected f32, as 'q' is, fp8e4m3 or fp8e5m2; cast it"},
      {with(2, {DType::fp8e4m3, {1, 5, 2, 32}}), {}, "input 'v' is fp8e4m3, expected f32, as 'k' is; cast it"},
      {with(2, {DType::f32, {1, 6, 2, 32}}), {}, "input 'v' has 6 keys, expected 5, as 'k' has"},
      {with(2, {DType::f32, {1, 5, 2, 264}}), {}, "input 'v' has heads of 264 numbers, expected 1 to 256"},
      {with(3, {DType::f32, {5, 4}}), {}, "input 'attn_mask' has shape (5, 4), which does not broadcast"},
      {with(3, {DType::f16, {4, 5}}), {}, "input 'attn_mask' is f16, expected bool (True: seen), f32 (added)"},
      {with(4, {DType::f32, {2}}), {}, "input 'alibi_slopes' has shape (2), expected (6) or (1, 6)"},
      {with(5, {DType::f16, {6}}), {}, "input 'sinks' is f16, expected f32"},
      {with(7, {DType::f32, {3}}), {}, "input 'k_descale' has shape (3), which does not broadcast to (1, 2)"},
      {heads(DType::bf16, 4, 5, 6, 2, 32),
       {{"out_dtype", DType::f32}},
       "attribute 'out_dtype' is f32, expected bf16, or None for q's dtype: where 'q' is bf16, results hold no more"},
      {good(), {{"out_dtype", DType::i32}}, "attribute 'out_dtype' is i32, expected f32, f16 or bf16"},
      {good(), {{"causal", std::string("left")}}, "attribute 'causal' is \"left\", expected \"none\", \"top_left\""},
      {good(), {{"window", std::vector<std::int64_t>{3}}}, "attribute 'window' is [3], expected two integers"},
      {good(), {{"window", std::vector<std::int64_t>{-2, 0}}}, "expected numbers of keys, or -1 for all of them"},
      {good(), {{"softcap", -1.0}}, "attribute 'softcap' is -1, expected what scores stay below"},
      {good(), {{"scale", INFINITY}}, "attribute 'scale' is inf, expected a finite number"},
      {good(), {{"scale", 1e39}}, "attribute 'scale' is 1e+39, expected a finite number, in f32 too"},
      {good(), {{"softcap", 1e300}}, "attribute 'softcap' is 1e+300, expected a finite number, in f32 too"},
      {good(), {{"layout", std::string("SBHD")}}, "attribute 'layout' is \"SBHD\", expected \"BSHD\""},
  };
  for (const auto& [inputs, attributes, message] : cases) EXPECT_THAT(refused(inputs, attributes), HasSubstr(message));
}

}  // namespace
}  // namespace kiln::test
