// What the sweep does not know of attention_paged: numbers that a person worked out, lengths around pages' ends, groups
// and sizes of heads, that nothing behind a length is looked at, that lengths may change under one plan, how far off a
// 16-bit computation may be, and what is refused.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include "ops/common/element.hpp"
#include "registry/dispatch/dispatch.hpp"
#include "registry/plan/registry.hpp"
#include "tests/support/error_message.hpp"
#include "tests/support/integer_tensors.hpp"
#include "tests/support/paged_op_test.hpp"
#include "tests/support/plain_attention.hpp"
#include "tests/support/sweep_amount.hpp"
#include "tests/support/tensor_values.hpp"

namespace kiln::test {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatNear;
using ::testing::HasSubstr;

constexpr const char* kPaged = "attention_paged";

class AttentionPaged : public PagedOpTest {};

TEST_F(AttentionPaged, KeysAreSeenByTheirPlace) {
  // One head of one number, keys of 0, and values 1, 3, 8 in pages 2 and 0 of two tokens.
  const std::vector<float> keys(6), values = {8, -100, -100, -100, 1, 3};
  const struct {
    Attributes attributes;
    std::int64_t queries, length;
    std::vector<float> expected;
  } cases[] = {
      {{}, 1, 3, {4}},
      {{}, 2, 3, {2, 4}},
      {{}, 4, 3, {0, 1, 2, 4}},
      {{}, 2, 1, {0, 1}},
      {{}, 2, 0, {0, 0}},
      {{{"causal", std::string("none")}}, 2, 3, {4, 4}},
      {{{"window", std::vector<std::int64_t>{1, -1}}}, 1, 3, {5.5F}},
      {{{"window", std::vector<std::int64_t>{0, 0}}}, 4, 3, {0, 1, 3, 8}},
      {{{"causal", std::string("none")}, {"window", std::vector<std::int64_t>{0, 1}}}, 3, 3, {2, 5.5F, 8}},
      {{{"num_splits", std::int64_t{3}}}, 3, 3, {1, 2, 4}},
  };
  for (const Device device : devices_)
    for (const auto& [attributes, queries, length, expected] : cases) {
      const Tensor q = make_f32({1, queries, 1, 1}, std::vector<float>(static_cast<std::size_t>(queries)), device);
      EXPECT_EQ(
          read_f32(dispatch_gpu_op(
              kPaged,
              {q, make_f32({3, 2, 1, 1}, keys, device), make_f32({3, 2, 1, 1}, values, device),
               make_integers(DType::i32, {1, 3}, {2, 0, 77}, device), make_integers(DType::i64, {1}, {length}, device)},
              attributes)),
          expected)
          << queries << " queries of " << length << " tokens";
    }
}

TEST_F(AttentionPaged, SinksCountOnceHoweverManyPartsThereAre) {
  for (const Device device : devices_)
    for (const std::int64_t splits : {1, 2, 5}) {
      const Attributes attributes = {{"num_splits", splits}, {"return_lse", true}};
      // Two heads share the keys of 40 tokens, whose scores are 0 and values 1; one's sink is log(40), the other's
      // none.
      const std::vector<Tensor> results = dispatch_gpu_op_all(
          kPaged,
          std::vector<Tensor>{make_f32({1, 1, 2, 1}, {0, 0}, device),
                              make_f32({40, 1, 1, 1}, std::vector<float>(40), device),
                              make_f32({40, 1, 1, 1}, std::vector<float>(40, 1), device),
                              make_integers(DType::i64, {1, 40}, std::vector<std::int64_t>(40), device),
                              make_integers(DType::i32, {1}, {40}, device), Tensor{},
                              make_f32({2}, {std::log(40.0F), -INFINITY}, device)},
          attributes);
      EXPECT_THAT(read_f32(results[0]), ElementsAre(FloatNear(0.5F, 1e-5F), FloatNear(1, 1e-5F))) << splits;
      EXPECT_THAT(read_f32(results[1]),
                  ElementsAre(FloatNear(std::log(80.0F), 1e-5F), FloatNear(std::log(40.0F), 1e-5F)));
    }
}

TEST_F(AttentionPaged, WithANumberOfPartsARequestsBitsDependOnNoOtherRequest) {
  constexpr std::int64_t kHeads = 4, kDim = 64, kPage = 16, kPages = 12, kRequest = kHeads * kDim;
  std::mt19937_64 random(7);
  std::uniform_real_distribution<float> number(-1, 1);
  const auto draw = [&](std::int64_t count) {
    std::vector<float> numbers(static_cast<std::size_t>(count));
    for (float& each : numbers) each = number(random);
    return numbers;
  };
  for (const Device device : devices_)
    for (const std::int64_t requests : {2, 9, 70}) {
      const std::vector<float> queries = draw(requests * kRequest);
      const Dims cache = {kPages, kPage, 2, kDim};
      const Tensor keys = make_f32(cache, draw(kPages * kPage * 2 * kDim), device),
                   values = make_f32(cache, draw(kPages * kPage * 2 * kDim), device);
      std::vector<std::int64_t> table, lengths;
      for (std::int64_t i = 0; i < requests * kPages; ++i) table.push_back(i * 5 % kPages);
      for (std::int64_t i = 0; i < requests; ++i) lengths.push_back((i * 37 + 150) % (kPages * kPage));
      const auto first_of = [&](std::int64_t count) {
        const auto some = [&](const auto& all, std::int64_t each) {
          return std::decay_t<decltype(all)>(all.begin(), all.begin() + count * each);
        };
        const Tensor out =
            dispatch_gpu_op(kPaged,
                            {make_f32({count, 1, kHeads, kDim}, some(queries, kRequest), device), keys, values,
                             make_integers(DType::i32, {count, kPages}, some(table, kPages), device),
                             make_integers(DType::i32, {count}, some(lengths, 1), device)},
                            {{"num_splits", std::int64_t{3}}});
        std::vector<float> numbers = read_f32(out);
        numbers.resize(static_cast<std::size_t>(kRequest));
        return numbers;
      };
      EXPECT_EQ(first_of(1), first_of(requests)) << requests;
    }
}

TEST_F(AttentionPaged, LengthsAroundPagesEnds) {
  for (const std::int64_t page : {1, 3, 16, 64, 100, 256}) {
    const std::int64_t max_pages = std::max<std::int64_t>(300 / page, 2);
    const Lengths lengths = {
        0, 1, page - 1, page, page + 1, 2 * page - 1, 2 * page, max_pages * page - 1, max_pages * page};
    for (const std::int64_t queries : {1, 3})
      for (const std::int64_t splits : {0, 1, 4})
        expect_right(Paged{.dtype = queries == 1 ? DType::bf16 : DType::f32,
                           .queries = queries,
                           .key_heads = 1,
                           .group = 2,
                           .dim = 32,
                           .value_dim = 32,
                           .page = page,
                           .max_pages = max_pages,
                           .heads_first = splits == 1},
                     lengths, {{"num_splits", splits}});
  }
}

TEST_F(AttentionPaged, GroupsAndSizesOfHeads) {
  for (const std::int64_t group : {1, 3, 7, 8, 16})
    for (const std::int64_t queries : {1, 2, 16})
      expect_right(Paged{.queries = queries, .group = group}, {128, 5, 77}, {{"num_splits", std::int64_t{2}}});
  const struct {
    std::int64_t dim, value_dim;
  } sizes[] = {{64, 64}, {80, 80}, {128, 128}, {128, 64}, {80, 256}, {192, 128}, {1, 3}};
  for (const auto& [dim, value_dim] : sizes)
    for (const DType dtype : one_drawn<DType>({DType::f16, DType::f32}))
      expect_right(Paged{.dtype = dtype, .queries = 2, .group = 4, .dim = dim, .value_dim = value_dim}, {100, 0, 16});
}

TEST_F(AttentionPaged, WindowsThatLeaveRowsEmpty) {
  for (const std::vector<std::int64_t>& window :
       {std::vector<std::int64_t>{0, 0}, {5, 0}, {40, 3}, {-1, 2}, {100000, 100000}})
    for (const char* causal : {"none", "bottom_right"})
      for (const std::int64_t queries : {1, 5, 20})
        expect_right(Paged{.dtype = DType::f32, .queries = queries, .group = 3, .dim = 32, .value_dim = 32},
                     {1, 4, 70, 128, 0}, {{"window", window}, {"causal", std::string(causal)}});
}

TEST_F(AttentionPaged, OnePlanServesAllLengths) {
  expect_one_plan(Paged{.dtype = DType::f32, .group = 2}, {{"num_splits", std::int64_t{4}}},
                  {{128, 1}, {0, 50}, {17, 128}});
}

TEST_F(AttentionPaged, ErrorsAreThoseOf16Bits) {
  constexpr std::int64_t kLength = 200, kQueries = 16, kDim = 64;
  for (const Device device : devices_)
    for (const std::int64_t splits : {1, 3}) {
      const Example example{{{DType::bf16, {1, kQueries, 1, kDim}},
                             {DType::bf16, {25, 8, 1, kDim}},
                             {DType::bf16, {25, 8, 1, kDim}},
                             {DType::i32, {1, 25}},
                             {DType::i32, {1}}},
                            {{"causal", std::string("none")}, {"num_splits", splits}}};
      const DrawnCall drawn(Registry::process().get(kPaged), example, 7);
      for (std::int64_t entry = 0; entry < 25; ++entry) common::store_at<std::int64_t>(drawn.tensors[3], entry, entry);
      common::store_at<std::int64_t>(drawn.tensors[4], 0, kLength);
      const PlainAttention plain(numbers_of(drawn.tensors[0]), numbers_of(drawn.tensors[1]),
                                 numbers_of(drawn.tensors[2]), kDim);
      EXPECT_GT(plain.error, 0);
      EXPECT_LE(plain.error_of(
                    numbers_of(to_device(dispatch_gpu_op(kPaged, drawn.on(device), drawn.attributes), Device::cpu()))),
                plain.allowed());
    }
}

TEST_F(AttentionPaged, EntriesOutOfRangeAreRefusedWhereThatIsAsked) {
  const struct {
    std::vector<std::int64_t> table, lengths;
    const char* message;
  } cases[] = {
      {{0, 1, 3, 0},
       {4, 3},
       "input 'block_table'[1, 0] is 3, which the request's length uses; 'k_cache' (3, 2, 1, 1) "
       "has blocks 0 to 2"},
      {{0, -1, 1, 0}, {3, 2}, "input 'block_table'[0, 1] is -1"},
      {{0, 1, 2, 0},
       {5, 2},
       "input 'seq_lens'[0] is 5, expected 0 to 4, the tokens that a 'block_table' of shape (2, "
       "2) with pages of 2 leave room for"},
      {{0, 1, 2, 0}, {2, -1}, "input 'seq_lens'[1] is -1"},
      {{0, 99, 2, -7}, {2, 1}, nullptr},
  };
  for (const Device device : devices_)
    for (const std::int64_t splits : {1, 2})
      for (const auto& [table, lengths, message] : cases) {
        const auto call = [&] {
          return read_f32(dispatch_gpu_op(
              kPaged,
              {make_f32({2, 1, 1, 1}, {0, 0}, device), make_f32({3, 2, 1, 1}, std::vector<float>(6), device),
               make_f32({3, 2, 1, 1}, {1, 3, 0, 0, 7, 0}, device), make_integers(DType::i32, {2, 2}, table, device),
               make_integers(DType::i32, {2}, lengths, device)},
              {{"check_bounds", true}, {"num_splits", splits}}));
        };
        if (message == nullptr)
          EXPECT_THAT(call(), ElementsAre(2, 7));
        else
          EXPECT_THAT(usage_error(call), HasSubstr(message));
      }
}

TEST(AttentionPagedErrors, NameWhatIsWrong) {
  const auto good = []() -> std::vector<TensorMeta> {
    return {{DType::f32, {2, 1, 6, 32}},
            {DType::f32, {5, 16, 2, 32}},
            {DType::f32, {5, 16, 2, 40}},
            {DType::i32, {2, 3}},
            {DType::i32, {2}}};
  };
  const auto with = [&](std::size_t input, const TensorMeta& meta) {
    std::vector<TensorMeta> inputs = good();
    while (inputs.size() <= input) inputs.push_back({DType::f32, {}, true});
    inputs[input] = meta;
    return inputs;
  };
  const auto listed = [&](const TensorMeta& starts) {
    std::vector<TensorMeta> inputs = with(9, starts);
    inputs[3].shape = {6};
    return inputs;
  };
  const struct {
    std::vector<TensorMeta> inputs;
    Attributes attributes;
    const char* message;
  } cases[] = {
      {with(0, {DType::f32, {2, 6, 32}}), {}, "input 'q' has shape (2, 6, 32), expected [B, Sq, H, D]"},
      {with(0, {DType::f32, {2, 1, 5, 32}}), {}, "input 'q' has 5 heads and 'k_cache' 2; expected a multiple"},
      {with(0, {DType::f32, {2, 1, 6, 300}}), {}, "input 'k_cache' has 32 numbers a head, expected 300, as 'q' has"},
      {with(1, {DType::bf16, {5, 16, 2, 32}}), {}, "input 'k_cache' is bf16, expected f32, as 'q' is, fp8e4m3"},
      {with(0, {DType::fp8e4m3, {2, 1, 6, 32}}), {}, "input 'q' of dtype fp8e4m3; its dtypes: f32, f16, bf16"},
      {with(8, {DType::f32, {3, 2}}), {}, "input 'v_scale' has shape (3, 2), which does not broadcast to (2, 2)"},
      {with(9, {DType::i32, {3}}), {}, "input 'block_table' has shape (2, 3), expected [pages of all requests]"},
      {listed({DType::i32, {2}}), {}, "input 'page_indptr' has 2 numbers, expected 3, one more than 'q' has requests"},
      {listed({DType::i64, {3}}), {}, "input 'page_indptr' is i64, expected i32, as 'block_table' is; cast it"},
      {listed({DType::i32, {3}}), {{"check_bounds", true}}, "attribute 'check_bounds' is true, expected false"},
      {with(1, {DType::f32, {5, 16, 32}}), {}, "input 'k_cache' has shape (5, 16, 32), expected [blocks, page, H, D]"},
      {with(2, {DType::f32, {4, 16, 2, 40}}), {}, "input 'v_cache' has 4 blocks, expected 5, as 'k_cache' has"},
      {with(2, {DType::f32, {5, 8, 2, 40}}), {}, "input 'v_cache' has 8 tokens a block, expected 16"},
      {with(2, {DType::f32, {5, 16, 1, 40}}), {}, "input 'v_cache' has 1 heads, expected 2, as 'k_cache' has"},
      {with(2, {DType::f32, {5, 16, 2, 264}}), {}, "input 'v_cache' has heads of 264 numbers, expected 1 to 256"},
      {with(3, {DType::i32, {3, 3}}), {}, "input 'block_table' has 3 requests, expected 2, as 'q' has"},
      {with(3, {DType::f32, {2, 3}}), {}, "input 'block_table' of dtype f32; its dtypes: i32, i64"},
      {with(4, {DType::i32, {2, 1}}), {}, "input 'seq_lens' has shape (2, 1), expected [B], a length for each request"},
      {with(5, {DType::f32, {2}}), {}, "input 'alibi_slopes' has shape (2), expected (6) or (2, 6)"},
      {with(6, {DType::f16, {6}}), {}, "input 'sinks' is f16, expected f32"},
      {good(), {{"causal", std::string("top_left")}}, "attribute 'causal' is \"top_left\", expected \"bottom_right\""},
      {good(), {{"layout", std::string("BSHD")}}, "attribute 'layout' is \"BSHD\", expected \"NHD\""},
      {good(), {{"num_splits", std::int64_t{-1}}}, "attribute 'num_splits' is -1, expected parts"},
      {good(), {{"window", std::vector<std::int64_t>{3}}}, "attribute 'window' is [3], expected two integers"},
      {good(), {{"softcap", -1.0}}, "attribute 'softcap' is -1, expected what scores stay below"},
  };
  for (const auto& [inputs, attributes, message] : cases)
    EXPECT_THAT(usage_error([&] {
                  dispatch_gpu_op(kPaged, dense_tensors(inputs, Stream::default_of(Device::cpu())), attributes);
                }),
                HasSubstr(message));
}

}  // namespace
}  // namespace kiln::test
