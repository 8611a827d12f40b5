// What the sweep does not know of attention_varlen: numbers that a person worked out, lengths that broke others, rows
// that are no sequence's, that sequences do not see each other, how far off a 16-bit computation may be, and what is
// refused.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "ops/common/element.hpp"
#include "registry/dispatch/dispatch.hpp"
#include "registry/plan/registry.hpp"
#include "tests/support/devices.hpp"
#include "tests/support/error_message.hpp"
#include "tests/support/integer_tensors.hpp"
#include "tests/support/op_case.hpp"
#include "tests/support/plain_attention.hpp"
#include "tests/support/sweep_amount.hpp"
#include "tests/support/tensor_values.hpp"

namespace kiln::test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* kVarlen = "attention_varlen";

/// Queries and keys of a sequence.
struct Sequence {
  std::int64_t queries, keys;
};

/// Packed sequences with rows around them that are nobody's: `before` of q in front, and as many of each behind, which
/// in k and v are NaN.
DrawnCall packed(DType dtype, const std::vector<Sequence>& sequences, std::int64_t heads, std::int64_t key_heads,
                 std::int64_t dim, std::int64_t value_dim, Attributes attributes, std::uint64_t seed,
                 std::int64_t before = 0) {
  std::vector<std::int64_t> q_starts = {before}, k_starts = {before};
  std::int64_t max_queries = 0, max_keys = 0;
  for (const auto& [queries, keys] : sequences) {
    q_starts.push_back(q_starts.back() + queries);
    k_starts.push_back(k_starts.back() + keys);
    max_queries = std::max(max_queries, queries);
    max_keys = std::max(max_keys, keys);
  }
  const std::int64_t rows = q_starts.back() + before, keys = k_starts.back() + before;
  if (attributes.find("max_seqlen_q") == nullptr) attributes.set("max_seqlen_q", max_queries);
  attributes.set("max_seqlen_k", max_keys);
  attributes.set("return_lse", true);
  const auto count = static_cast<std::int64_t>(q_starts.size());
  DrawnCall drawn(Registry::process().get(kVarlen),
                  {{{dtype, {rows, heads, dim}},
                    {dtype, {keys, key_heads, dim}},
                    {dtype, {keys, key_heads, value_dim}},
                    {DType::i32, {count}},
                    {DType::i32, {count}}},
                   attributes},
                  seed);
  for (std::int64_t i = 0; i < count; ++i) {
    common::store_at<std::int64_t>(drawn.tensors[3], i, q_starts[static_cast<std::size_t>(i)]);
    common::store_at<std::int64_t>(drawn.tensors[4], i, k_starts[static_cast<std::size_t>(i)]);
  }
  for (const std::size_t input : {std::size_t{1}, std::size_t{2}}) {
    const Tensor& tensor = drawn.tensors[input];
    const std::int64_t row = keys == 0 ? 0 : tensor.numel() / keys;
    for (std::int64_t i = 0; i < tensor.numel(); ++i)
      if (i / row < before || i / row >= keys - before)
        common::store_at<double>(tensor, i, std::numeric_limits<double>::quiet_NaN());
  }
  return drawn;
}

class AttentionVarlen : public DevicesTest {};

TEST_F(AttentionVarlen, SequencesSeeTheirOwnKeys) {
  // Queries and keys of 0, one head of one number, values 1, 3, 8, 20. Rows 0 and 5 of q are nobody's.
  const struct {
    Attributes attributes;
    std::vector<std::int64_t> q_starts, k_starts;
    std::vector<float> expected;
  } cases[] = {
      {{}, {1, 3, 5}, {0, 2, 4}, {0, 2, 2, 14, 14, 0}},
      {{{"causal", std::string("bottom_right")}}, {1, 3, 5}, {0, 1, 4}, {0, 0, 1, 5.5F, 31.0F / 3, 0}},
      {{{"causal", std::string("top_left")}}, {1, 3, 5}, {0, 1, 4}, {0, 1, 1, 3, 5.5F, 0}},
      {{{"window", std::vector<std::int64_t>{0, 0}}}, {1, 3, 5}, {0, 1, 4}, {0, 0, 1, 8, 20, 0}},
      {{}, {1, 1, 5}, {0, 3, 4}, {0, 20, 20, 20, 20, 0}},
      {{}, {1, 3, 5}, {0, 0, 4}, {0, 0, 0, 8, 8, 0}},
      {{}, {6}, {4}, {0, 0, 0, 0, 0, 0}},
      {{{"max_seqlen_q", std::int64_t{1}}}, {1, 3, 5}, {0, 2, 4}, {0, 2, 0, 14, 0, 0}},
  };
  for (const Device device : devices_)
    for (auto [attributes, q_starts, k_starts, expected] : cases) {
      if (attributes.find("max_seqlen_q") == nullptr) attributes.set("max_seqlen_q", std::int64_t{4});
      attributes.set("max_seqlen_k", std::int64_t{4});
      attributes.set("return_lse", true);
      const Dims count = {static_cast<std::int64_t>(q_starts.size())};
      const std::vector<Tensor> results = dispatch_gpu_op_all(
          kVarlen,
          std::vector<Tensor>{
              make_f32({6, 1, 1}, std::vector<float>(6), device), make_f32({4, 1, 1}, std::vector<float>(4), device),
              make_f32({4, 1, 1}, {1, 3, 8, 20}, device), make_integers(DType::i64, count, q_starts, device),
              make_integers(DType::i64, count, k_starts, device)},
          attributes);
      const std::vector<float> got = read_f32(results[0]), lse = read_f32(results[1]);
      for (std::size_t i = 0; i < expected.size(); ++i) {
        EXPECT_FLOAT_EQ(got[i], expected[i]) << i << " of " << testing::PrintToString(expected);
        EXPECT_EQ(lse[i] == -INFINITY, expected[i] == 0) << i << " of " << testing::PrintToString(expected);
      }
    }
}

TEST_F(AttentionVarlen, LengthsAndGroupsThatBrokeOthers) {
  const std::vector<Sequence> all = {{239, 1}, {113, 203}, {0, 5}, {5, 0}, {1, 1}, {128, 128}, {64, 65}, {1, 300}};
  const struct {
    std::vector<Sequence> sequences;
    std::int64_t heads, key_heads;
    std::vector<std::int64_t> window;
  } cases[] = {
      {all, 3, 1, {-1, -1}},
      {all, 8, 2, {20, 0}},
      {{{799, 3}, {7, 7}}, 7, 1, {-1, -1}},
      {{{1023, 1024}}, 1, 1, {300, 7}},
      {{{16, 16}, {16, 16}}, 16, 1, {-1, -1}},
  };
  std::uint64_t seed = 0;
  for (const Device device : devices_)
    for (const auto& test : cases)
      for (const DType dtype : one_drawn<DType>({DType::f32, DType::bf16}))
        for (const char* causal : {"none", "top_left", "bottom_right"}) {
          const OpCase made(packed(dtype, test.sequences, test.heads, test.key_heads, 32, 32,
                                   {{"causal", std::string(causal)}, {"window", test.window}}, ++seed, 3),
                            device);
          const std::vector<Tensor> once = dispatch_gpu_op_all(kVarlen, made.inputs(), made.attributes()),
                                    again = dispatch_gpu_op_all(kVarlen, made.inputs(), made.attributes());
          EXPECT_EQ(made.difference(once, Stream::default_of(device)), "")
              << test.heads << " heads " << name(dtype) << " " << causal;
          EXPECT_EQ(values_of<std::uint8_t>(once[0]), values_of<std::uint8_t>(again[0])) << "other bits";
        }
}

TEST_F(AttentionVarlen, SizesOfHeads) {
  const struct {
    std::int64_t dim, value_dim;
  } sizes[] = {{64, 64}, {80, 80}, {128, 128}, {128, 64}, {40, 256}};
  std::uint64_t seed = 100;
  for (const Device device : devices_)
    for (const auto& [dim, value_dim] : sizes)
      for (const DType dtype : one_drawn<DType>({DType::f16, DType::f32})) {
        const OpCase made(
            packed(dtype, {{70, 90}, {3, 3}}, 4, 2, dim, value_dim, {{"causal", std::string("bottom_right")}}, ++seed),
            device);
        EXPECT_EQ(
            made.difference(dispatch_gpu_op_all(kVarlen, made.inputs(), made.attributes()), Stream::default_of(device)),
            "")
            << dim << " and " << value_dim << " " << name(dtype);
      }
}

TEST_F(AttentionVarlen, ErrorsAreThoseOf16Bits) {
  for (const Device device : devices_) {
    const DrawnCall drawn = packed(DType::bf16, {{200, 200}}, 1, 1, 64, 64, {}, 7);
    const PlainAttention plain(numbers_of(drawn.tensors[0]), numbers_of(drawn.tensors[1]), numbers_of(drawn.tensors[2]),
                               64);
    EXPECT_GT(plain.error, 0);
    EXPECT_LE(plain.error_of(
                  numbers_of(to_device(dispatch_gpu_op(kVarlen, drawn.on(device), drawn.attributes), Device::cpu()))),
              plain.allowed());
  }
}

TEST(AttentionVarlenErrors, NameWhatIsWrong) {
  const auto good = []() -> std::vector<TensorMeta> {
    return {{DType::f32, {9, 6, 32}},
            {DType::f32, {11, 2, 32}},
            {DType::f32, {11, 2, 40}},
            {DType::i32, {3}},
            {DType::i32, {3}}};
  };
  const auto with = [&](std::size_t input, const TensorMeta& meta) {
    std::vector<TensorMeta> inputs = good();
    while (inputs.size() <= input) inputs.push_back({DType::f32, {}, true});
    inputs[input] = meta;
    return inputs;
  };
  const Attributes lengths = {{"max_seqlen_q", std::int64_t{5}}, {"max_seqlen_k", std::int64_t{6}}};
  const auto and_also = [&](const char* name, const AttributeValue& value) {
    Attributes attributes = lengths;
    attributes.set(name, value);
    return attributes;
  };
  const struct {
    std::vector<TensorMeta> inputs;
    Attributes attributes;
    const char* message;
  } cases[] = {
      {good(), {}, "max_seqlen_q"},
      {with(0, {DType::f32, {1, 9, 6, 32}}), lengths, "input 'q' has shape (1, 9, 6, 32), expected [Tq, H, D]"},
      {with(0, {DType::f32, {9, 5, 32}}), lengths, "input 'q' has 5 heads and 'k' 2; expected a multiple"},
      {with(1, {DType::bf16, {11, 2, 32}}), lengths, "input 'k' is bf16, expected f32, as 'q' is, fp8e4m3"},
      {with(1, {DType::f32, {4, 3, 2, 32}}), lengths,
       "expected [Tk, Hk, D], sequences one after the other; pages need"},
      {with(8, {DType::i32, {2, 3}}), lengths, "input 'k' has shape (11, 2, 32), expected [blocks, page, Hk, D]"},
      {with(7, {DType::i32, {3}}), lengths, "input 'seqused_k' has shape (3), expected 2 numbers"},
      {with(4, TensorMeta::left_out()), lengths, "input 'cu_seqlens_k' is left out, expected [3]"},
      {with(10, {DType::f32, {5}}), lengths, "input 'k_descale' has shape (5), which does not broadcast to (2, 2)"},
      {with(2, {DType::f32, {10, 2, 40}}), lengths, "input 'v' has 10 keys, expected 11, as 'k' has"},
      {with(2, {DType::f32, {11, 2, 264}}), lengths, "input 'v' has heads of 264 numbers, expected 1 to 256"},
      {with(3, {DType::i32, {0}}), lengths, "input 'cu_seqlens_q' has shape (0), expected [B + 1]"},
      {with(4, {DType::i32, {4}}), lengths, "input 'cu_seqlens_k' has shape (4), expected 3 numbers"},
      {with(4, {DType::i64, {3}}), lengths, "input 'cu_seqlens_k' is i64, expected i32, as 'cu_seqlens_q' is"},
      {with(5, {DType::f32, {2}}), lengths, "input 'alibi_slopes' has shape (2), expected (6) or (2, 6)"},
      {with(6, {DType::f32, {2}}), lengths, "input 'sinks' has shape (2), expected (6)"},
      {good(), and_also("max_seqlen_q", std::int64_t{-1}), "attribute 'max_seqlen_q' is -1, expected the length"},
      {good(), and_also("causal", std::string("left")), "attribute 'causal' is \"left\", expected \"none\""},
      {good(), and_also("window", std::vector<std::int64_t>{-2, 0}), "expected numbers of keys, or -1 for all of them"},
      {good(), and_also("scale", INFINITY), "attribute 'scale' is inf, expected a finite number"},
  };
  for (const auto& [inputs, attributes, message] : cases)
    EXPECT_THAT(usage_error([&] {
                  dispatch_gpu_op(kVarlen, dense_tensors(inputs, Stream::default_of(Device::cpu())), attributes);
                }),
                HasSubstr(message));
}

}  // namespace
}  // namespace kiln::test
