// What the sweep does not know of rope_append: that it is rope and kv_append, bit for bit, also over views of one
// projection; what tokens without a slot get; and what is refused.

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
#include "tests/support/tensor_values.hpp"

namespace kiln::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class RopeAppend : public DevicesTest {};

TEST_F(RopeAppend, IsRopeAndAppend) {
  constexpr std::int64_t kTokens = 21, kQueryHeads = 6, kHeads = 2, kDim = 48, kBlocks = 5, kPage = 8;
  const OpSpec& rope = Registry::process().get("rope");
  for (const Device device : devices_)
    for (const DType dtype : {DType::f32, DType::bf16})
      for (const std::string layout : {"NHD", "HND"})
        for (const bool interleaved : {false, true})
          for (const std::int64_t rotary_dim : {48, 20}) {
            const Attributes rotation = {{"interleaved", interleaved}, {"rotary_dim", rotary_dim}};
            Attributes both = rotation;
            both.set("layout", layout);
            // Heads of queries, keys and values lie behind one another in what a projection gives.
            const DrawnCall drawn(rope, {{{dtype, {kTokens, kQueryHeads + 2 * kHeads, kDim}}}, {}}, 3);
            const Dims cache_shape =
                layout == "NHD" ? Dims{kBlocks, kPage, kHeads, kDim} : Dims{kBlocks, kHeads, kPage, kDim};
            std::vector<std::int64_t> slots(kTokens), positions(kTokens);
            for (std::int64_t t = 0; t < kTokens; ++t) {
              slots[static_cast<std::size_t>(t)] = t % 7 == 3 ? -1 : (t * 11) % (kBlocks * kPage);
              positions[static_cast<std::size_t>(t)] = 1000 + t * t;
            }
            const Tensor slot_mapping = tensor_of(DType::i64, slots, device),
                         places = tensor_of(DType::i64, positions, device);
            struct Memory {
              Tensor projection, key_cache, value_cache;
            };
            const auto memory = [&] {
              const DrawnCall caches(rope, {{{dtype, cache_shape}}, {}}, 4),
                  others(rope, {{{dtype, cache_shape}}, {}}, 5);
              return Memory{to_device(drawn.tensors[0], device), to_device(caches.tensors[0], device),
                            to_device(others.tensors[0], device)};
            };
            const auto heads = [&](const Tensor& projection, std::int64_t first, std::int64_t count) {
              TensorView view = projection.view();
              view.data = static_cast<std::byte*>(view.data) + first * kDim * itemsize_bytes(dtype);
              view.shape = {kTokens, count, kDim};
              return Tensor(view, projection.owner());
            };
            const Memory one = memory(), other = memory();
            const std::vector<Tensor> changed =
                dispatch_gpu_op_all("rope_append",
                                    std::vector<Tensor>{heads(one.projection, 0, kQueryHeads),
                                                        heads(one.projection, kQueryHeads, kHeads),
                                                        heads(one.projection, kQueryHeads + kHeads, kHeads),
                                                        one.key_cache,
                                                        one.value_cache,
                                                        slot_mapping,
                                                        {},
                                                        {},
                                                        places},
                                    both);
            ASSERT_EQ(changed.size(), 3U);
            EXPECT_EQ(changed[1].data(), one.key_cache.data());
            const std::vector<Tensor> q = {heads(other.projection, 0, kQueryHeads)};
            dispatch_gpu_op("rope", {q[0], {}, {}, places}, rotation, {.outputs = q});
            const Tensor key =
                dispatch_gpu_op("rope", {heads(other.projection, kQueryHeads, kHeads), {}, {}, places}, rotation);
            dispatch_gpu_op_all("kv_append",
                                std::vector<Tensor>{key, heads(other.projection, kQueryHeads + kHeads, kHeads),
                                                    other.key_cache, other.value_cache, slot_mapping},
                                {{"layout", layout}});
            const auto bytes = [](const Tensor& tensor) { return values_of<std::uint8_t>(tensor); };
            const std::string what =
                std::string(name(dtype)) + " " + layout + (interleaved ? " neighbours" : " halves");
            EXPECT_EQ(bytes(one.projection), bytes(other.projection)) << what;
            EXPECT_EQ(bytes(one.key_cache), bytes(other.key_cache)) << what;
            EXPECT_EQ(bytes(one.value_cache), bytes(other.value_cache)) << what;
          }
}

TEST_F(RopeAppend, TokensWithoutASlotHaveTheirQueriesTurnedAlone) {
  for (const Device device : devices_) {
    const Tensor q = make_f32({3, 1, 2}, {1, 2, 3, 4, 5, 6}, device),
                 key = make_f32({3, 1, 2}, {1, 2, 3, 4, 5, 6}, device),
                 value = make_f32({3, 1, 2}, {7, 8, 9, 10, 11, 12}, device);
    const Tensor keys = make_f32({1, 2, 1, 2}, {0, 0, 0, 0}, device),
                 values = make_f32({1, 2, 1, 2}, {0, 0, 0, 0}, device);
    const Tensor cos = make_f32({1, 1}, {0}, device), sin = make_f32({1, 1}, {1}, device);
    const std::vector<std::int64_t> slots{-1, 1, 2}, positions{0, 0, 0};
    dispatch_gpu_op_all("rope_append",
                        std::vector<Tensor>{q, key, value, keys, values, tensor_of(DType::i64, slots, device), cos, sin,
                                            tensor_of(DType::i64, positions, device)});
    EXPECT_THAT(read_f32(q), ElementsAre(-2, 1, -4, 3, -6, 5));
    EXPECT_THAT(read_f32(keys), ElementsAre(0, 0, -4, 3));
    EXPECT_THAT(read_f32(values), ElementsAre(0, 0, 9, 10));
    EXPECT_THAT(read_f32(key), ElementsAre(1, 2, 3, 4, 5, 6));
  }
}

TEST_F(RopeAppend, CachesOf8BitsHoldWhatScalesLeave) {
  constexpr std::uint8_t kOneAndAHalf = 0x3C, kLargest = 0x7E, kMinusTwo = 0xC0, kNan = 0x7F;  // of fp8e4m3
  for (const Device device : devices_) {
    const Tensor q = make_f32({1, 1, 2}, {1, 2}, device), key = make_f32({1, 1, 2}, {3, 4000}, device),
                 value = make_f32({1, 1, 2}, {-8, NAN}, device);
    const std::vector<std::uint8_t> zeros(2);
    const Tensor keys = tensor_of(DType::fp8e4m3, {1, 1, 1, 2}, zeros, device),
                 values = tensor_of(DType::fp8e4m3, {1, 1, 1, 2}, zeros, device);
    const Tensor cos = make_f32({1, 1}, {1}, device), sin = make_f32({1, 1}, {0}, device);
    dispatch_gpu_op_all(
        "rope_append",
        std::vector<Tensor>{q, key, value, keys, values, tensor_of(DType::i64, std::vector<std::int64_t>{0}, device),
                            cos, sin, Tensor{}, make_f32({1}, {2}, device), make_f32({}, {4}, device)});
    EXPECT_THAT(values_of<std::uint8_t>(keys), ElementsAre(kOneAndAHalf, kLargest));
    const std::vector<std::uint8_t> stored = values_of<std::uint8_t>(values);
    EXPECT_EQ(stored[0], kMinusTwo);
    EXPECT_EQ(stored[1] & kNan, kNan);
  }
}

TEST(RopeAppendErrors, NameWhatIsWrong) {
  const auto refused = [](std::vector<TensorMeta> inputs, const Attributes& attributes) {
    return usage_error([&] {
      const Example example{std::move(inputs), attributes};
      const DrawnCall drawn(Registry::process().get("rope_append"), example, 1);
      dispatch_gpu_op_all("rope_append", drawn.on(Device::cpu()), drawn.attributes);
    });
  };
  const auto with = [](std::size_t input, const TensorMeta& meta) {
    const TensorMeta rows{DType::f32, {4, 2, 8}}, cache{DType::f32, {3, 16, 2, 8}};
    std::vector<TensorMeta> inputs = {{DType::f32, {4, 6, 8}},
                                      rows,
                                      rows,
                                      cache,
                                      cache,
                                      {DType::i64, {4}},
                                      {DType::f32, {9, 4}},
                                      {DType::f32, {9, 4}},
                                      {DType::i64, {4}}};
    inputs.resize(std::max(inputs.size(), input + 1));
    inputs[input] = meta;
    return inputs;
  };
  const TensorMeta none{DType::f32, {0}, true};
  const struct {
    std::vector<TensorMeta> inputs;
    Attributes attributes;
    const char* message;
  } cases[] = {
      {with(0, {DType::f32, {1, 4, 6, 8}}),
       {},
       "op 'rope_append': input 'q' has shape (1, 4, 6, 8), expected [T, Hq, D]"},
      {with(0, {DType::bf16, {4, 6, 8}}), {}, "input 'key' is f32, expected bf16, as 'q' is; cast it"},
      {with(0, {DType::f32, {4, 6, 10}}),
       {},
       "input 'key' has shape (4, 2, 8) and 'q' (4, 6, 10); expected as many tokens"},
      {with(2, {DType::f32, {4, 3, 8}}), {}, "input 'value' has shape (4, 3, 8), expected that of 'key', (4, 2, 8)"},
      {with(3, {DType::f16, {3, 16, 2, 8}}), {}, "op 'rope_append': input 'key_cache' is f16"},
      {with(4, {DType::fp8e4m3, {3, 16, 2, 8}}), {}, "input 'value_cache' is fp8e4m3"},
      {with(9, {DType::f32, {}}), {}, "input 'k_scale' is given where 'key_cache' is f32, expected a cache of fp8"},
      {with(5, {DType::i64, {5}}), {}, "input 'slot_mapping' has 5 slots and 'key' 4 tokens"},
      {with(7, none), {}, "op 'rope_append': input 'cos' is given without 'sin'"},
      {with(8, {DType::i64, {3}}),
       {},
       "input 'positions' has shape (3), which does not broadcast to (4), one for each token of 'q' (4, 6, 8)"},
      {with(8, none), {{"rotary_dim", std::int64_t{3}}}, "attribute 'rotary_dim' is 3, expected an even number"},
      {with(8, none), {{"layout", std::string("DHN")}}, "attribute 'layout' is \"DHN\""},
      {with(8, none), {{"base", 3.0}}, "op 'rope_append': attribute 'base' is given beside inputs 'cos' and 'sin'"},
  };
  for (const auto& [inputs, attributes, message] : cases) EXPECT_THAT(refused(inputs, attributes), HasSubstr(message));
}

}  // namespace
}  // namespace kiln::test
