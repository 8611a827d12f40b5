// What the sweep does not know of mla_decode: numbers that a person worked out, that its parts are attention's, lengths
// around pages' ends, heads and sizes, that nothing behind a length is looked at, that lengths may change under one
// plan, and what is refused.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "registry/dispatch/dispatch.hpp"
#include "tests/support/error_message.hpp"
#include "tests/support/integer_tensors.hpp"
#include "tests/support/paged_op_test.hpp"
#include "tests/support/sweep_amount.hpp"
#include "tests/support/tensor_values.hpp"

namespace kiln::test {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatNear;
using ::testing::HasSubstr;

constexpr const char* kMla = "mla_decode";

class MlaDecode : public PagedOpTest {};

TEST_F(MlaDecode, BothPartsOfAKeyCount) {
  // Two numbers of a latent vector and one of a rotary part; tokens 0 to 2 lie in pages 2 and 0 of two tokens.
  const std::vector<float> cache = {9, 4, -5, 7, 7, 7, 7, 7, 7, 7, 7, 7, 1, 0, 0, 2, 2, 1};
  const float log2 = std::log(2.0F);
  const struct {
    std::vector<float> latent, rotary;
    Attributes attributes;
    std::int64_t queries, length;
    std::vector<float> expected;
  } cases[] = {
      // Scores of 0: means.
      {{0, 0}, {0}, {}, 1, 3, {4, 2}},
      {{0, 0, 0, 0}, {0, 0}, {}, 2, 3, {1.5F, 1, 4, 2}},
      {{0, 0, 0, 0}, {0, 0}, {{"causal", std::string("none")}}, 2, 3, {4, 2, 4, 2}},
      {{0, 0, 0, 0}, {0, 0}, {}, 2, 1, {0, 0, 1, 0}},
      {{0, 0, 0, 0}, {0, 0}, {}, 2, 0, {0, 0, 0, 0}},
      // Of two tokens one weighs twice as much: by its latent vector, by its rotary part.
      {{0, log2}, {-log2}, {}, 1, 2, {5.0F / 3, 4.0F / 3}},
      {{0, 0}, {log2}, {}, 1, 2, {5.0F / 3, 4.0F / 3}},
      {{0, 0}, {log2}, {{"num_splits", std::int64_t{2}}}, 1, 2, {5.0F / 3, 4.0F / 3}},
  };
  for (const Device device : devices_)
    for (const auto& [latent, rotary, attributes, queries, length, expected] : cases)
      for (const bool has_head : {false, true}) {
        Attributes all = attributes;
        all.set("scale", 1.0);
        const std::vector<float> out = read_f32(dispatch_gpu_op(
            kMla,
            {make_f32({1, queries, 1, 2}, latent, device), make_f32({1, queries, 1, 1}, rotary, device),
             make_f32(has_head ? Dims{3, 2, 1, 3} : Dims{3, 2, 3}, cache, device),
             make_integers(DType::i32, {1, 3}, {2, 0, 77}, device), make_integers(DType::i64, {1}, {length}, device)},
            all));
        EXPECT_THAT(out, ::testing::Pointwise(FloatNear(1e-5F), expected)) << queries << " of " << length;
      }
}

// Its keys are the cache's tokens, and its values their latent vectors.
TEST_F(MlaDecode, IsAttentionPagedWhereThatServesIt) {
  for (const Device device : devices_) {
    const PagedLatents shapes{.dtype = DType::f32, .queries = 2, .heads = 4, .latent = 96, .rotary = 32, .page = 16};
    const PoisonedCall call(shapes, {48, 5}, {}, 3);
    const std::vector<Tensor> inputs = call.drawn().on(device);
    const Tensor q = dispatch_gpu_op("concat", {inputs[0], inputs[1]}, {{"dim", std::int64_t{3}}});
    const TensorView cache = inputs[2].view();
    TensorView keys = cache;
    keys.shape = {cache.shape[0], cache.shape[1], 1, cache.shape[2]};
    keys.strides = {cache.strides[0], cache.strides[1], cache.strides[1], 1};
    TensorView values = keys;
    values.shape[3] = shapes.latent;
    const std::vector<TensorView> views = {q.view(), keys, values, inputs[3].view(), inputs[4].view()};
    const ResolvedOp paged = resolve("attention_paged", views, {{"scale", 0.0625}, {"return_lse", true}});
    const std::vector<Tensor> wanted = dense_tensors(paged.outputs(), Stream::default_of(device));
    paged(views, views_of(wanted), Stream::default_of(device));
    const std::vector<Tensor> got = dispatch_gpu_op_all(kMla, inputs, call.drawn().attributes);
    for (std::size_t i = 0; i < wanted.size(); ++i)
      EXPECT_THAT(read_f32(got[i]), ::testing::Pointwise(FloatNear(1e-5F), read_f32(wanted[i])));
  }
}

TEST_F(MlaDecode, LengthsAroundPagesEnds) {
  for (const std::int64_t page : {1, 16, 64, 100}) {
    const std::int64_t max_pages = std::max<std::int64_t>(200 / page, 2);
    const Lengths lengths = {
        0, 1, page - 1, page, page + 1, 2 * page - 1, 2 * page, max_pages * page - 1, max_pages * page};
    for (const std::int64_t queries : {1, 3})
      for (const std::int64_t splits : {1, 4})
        expect_right(PagedLatents{.dtype = queries == 1 ? DType::bf16 : DType::f32,
                                  .queries = queries,
                                  .heads = 4,
                                  .latent = 64,
                                  .rotary = 16,
                                  .page = page,
                                  .max_pages = max_pages,
                                  .has_head = splits == 1},
                     lengths, {{"num_splits", splits}});
  }
}

TEST_F(MlaDecode, HeadsAndSizes) {
  for (const std::int64_t heads : {1, 16, 40, 128})
    for (const std::int64_t queries : {1, 3})
      expect_right(PagedLatents{.queries = queries, .heads = heads}, {130, 5, 64}, {{"num_splits", std::int64_t{2}}});
  for (const std::int64_t queries : {1, 2})
    expect_right(PagedLatents{.queries = queries, .heads = 128, .page = 16}, {47, 16, 1});
  const struct {
    std::int64_t latent, rotary;
  } sizes[] = {{512, 64}, {256, 32}, {192, 64}, {80, 24}, {1, 1}};
  for (const auto& [latent, rotary] : sizes)
    for (const DType dtype : one_drawn<DType>({DType::f16, DType::f32}))
      expect_right(PagedLatents{.dtype = dtype, .queries = 2, .heads = 8, .latent = latent, .rotary = rotary},
                   {100, 0, 16});
  expect_right(PagedLatents{.heads = 16}, {100, 3}, {{"scale", -0.0625}});
}

// Queries as a product of every head by itself leaves them, [H, B, latent]: a query's heads lie further apart than a
// head's queries.
TEST_F(MlaDecode, QueriesThatLieHeadByHead) {
  for (const Device device : devices_)
    for (const std::int64_t splits : {1, 2}) {
      const PoisonedCall call({.dtype = DType::f32, .queries = 3, .heads = 5, .latent = 64, .rotary = 16}, {70, 2},
                              {{"num_splits", splits}}, 5);
      const std::vector<Tensor> inputs = call.drawn().on(device);
      std::vector<TensorView> views = views_of(inputs);
      std::vector<Tensor> moved;
      for (const std::size_t part : {std::size_t{0}, std::size_t{1}}) {
        const Tensor heads_first =
            dispatch_gpu_op("permute", {inputs[part]}, {{"dims", std::vector<std::int64_t>{0, 2, 1, 3}}});
        moved.push_back(heads_first);
        views[part] = heads_first.view();
        std::swap(views[part].shape[1], views[part].shape[2]);
        std::swap(views[part].strides[1], views[part].strides[2]);
      }
      const ResolvedOp plan = resolve(kMla, views, call.drawn().attributes);
      const std::vector<Tensor> got = dense_tensors(plan.outputs(), Stream::default_of(device)),
                                wanted = dispatch_gpu_op_all(kMla, inputs, call.drawn().attributes);
      plan(views, views_of(got), Stream::default_of(device));
      expect_same_bits(got, wanted);
    }
}

TEST_F(MlaDecode, OnePlanServesAllLengths) {
  expect_one_plan(PagedLatents{.heads = 8, .latent = 128}, {{"num_splits", std::int64_t{3}}},
                  {{128, 1}, {0, 50}, {17, 192}});
}

TEST_F(MlaDecode, EntriesOutOfRangeAreRefusedWhereThatIsAsked) {
  const struct {
    std::vector<std::int64_t> table, lengths;
    const char* message;
  } cases[] = {
      {{0, 1, 3, 0},
       {4, 3},
       "input 'block_table'[1, 0] is 3, which the request's length uses; 'cache' (3, 2, 2) has blocks 0 to 2"},
      {{0, 1, 2, 0}, {5, 2}, "input 'seq_lens'[0] is 5, expected 0 to 4"},
      {{0, 99, 2, -7}, {2, 1}, nullptr},
  };
  for (const Device device : devices_)
    for (const std::int64_t splits : {1, 2})
      for (const auto& [table, lengths, message] : cases) {
        const auto call = [&] {
          return read_f32(dispatch_gpu_op(
              kMla,
              {make_f32({2, 1, 1, 1}, {0, 0}, device), make_f32({2, 1, 1, 1}, {0, 0}, device),
               make_f32({3, 2, 2}, {1, 0, 3, 0, 0, 0, 0, 0, 7, 0, 0, 0}, device),
               make_integers(DType::i32, {2, 2}, table, device), make_integers(DType::i32, {2}, lengths, device)},
              {{"check_bounds", true}, {"num_splits", splits}, {"scale", 1.0}}));
        };
        if (message == nullptr)
          EXPECT_THAT(call(), ElementsAre(2, 7));
        else
          EXPECT_THAT(usage_error(call), HasSubstr(message));
      }
}

TEST(MlaDecodeErrors, NameWhatIsWrong) {
  const auto good = []() -> std::vector<TensorMeta> {
    return {{DType::f32, {2, 1, 6, 32}},
            {DType::f32, {2, 1, 6, 8}},
            {DType::f32, {5, 16, 40}},
            {DType::i32, {2, 3}},
            {DType::i32, {2}}};
  };
  const auto with = [&](std::size_t input, const TensorMeta& meta) {
    std::vector<TensorMeta> inputs = good();
    inputs[input] = meta;
    return inputs;
  };
  const Attributes scaled = {{"scale", 1.0}};
  const auto attributes_with = [&](const char* key, const AttributeValue& value) {
    Attributes attributes = scaled;
    attributes.set(key, value);
    return attributes;
  };
  const struct {
    std::vector<TensorMeta> inputs;
    Attributes attributes;
    const char* message;
  } cases[] = {
      {with(0, {DType::f32, {2, 6, 32}}), scaled, "input 'q_nope' has shape (2, 6, 32), expected [B, Sq, H, latent]"},
      {with(0, {DType::f32, {2, 1, 6, 576}}), scaled, "input 'q_nope' has heads of 576 numbers, expected 1 to 512"},
      {with(1, {DType::f32, {2, 6, 8}}), scaled, "input 'q_pe' has shape (2, 6, 8), expected [B, Sq, H, rotary]"},
      {with(1, {DType::f32, {2, 1, 6, 128}}), scaled, "input 'q_pe' has heads of 128 numbers, expected 1 to 64"},
      {with(1, {DType::f32, {2, 1, 5, 8}}), scaled, "input 'q_pe' has 5 heads, expected 6, as 'q_nope' has"},
      {with(1, {DType::f32, {2, 2, 6, 8}}), scaled, "input 'q_pe' has 2 queries a request, expected 1"},
      {with(1, {DType::bf16, {2, 1, 6, 8}}), scaled, "input 'q_pe' is bf16, expected f32, as 'q_nope' is; cast it"},
      {with(2, {DType::f16, {5, 16, 40}}), scaled, "input 'cache' is f16, expected f32, as 'q_nope' is; cast it"},
      {with(2, {DType::f32, {5, 16, 2, 40}}), scaled,
       "input 'cache' has shape (5, 16, 2, 40), expected [blocks, page,"},
      {with(2, {DType::f32, {5, 16, 32}}), scaled,
       "input 'cache' has tokens of 32 numbers, expected 40: the 32 of a head of 'q_nope' and behind them the 8 of"},
      {with(3, {DType::i32, {3, 3}}), scaled, "input 'block_table' has 3 requests, expected 2, as 'q_nope' has"},
      {with(3, {DType::f32, {2, 3}}), scaled, "input 'block_table' of dtype f32; its dtypes: i32, i64"},
      {with(4, {DType::i32, {2, 1}}), scaled, "input 'seq_lens' has shape (2, 1), expected [B], a length for each"},
      {good(), {}, "scale"},
      {good(), {{"scale", static_cast<double>(INFINITY)}}, "attribute 'scale' is inf, expected a finite number"},
      {good(), attributes_with("causal", std::string("top_left")), "attribute 'causal' is \"top_left\", expected"},
      {good(), attributes_with("num_splits", std::int64_t{-1}), "attribute 'num_splits' is -1, expected parts"},
  };
  for (const auto& [inputs, attributes, message] : cases)
    EXPECT_THAT(usage_error([&] {
                  dispatch_gpu_op(kMla, dense_tensors(inputs, Stream::default_of(Device::cpu())), attributes);
                }),
                HasSubstr(message));
}

}  // namespace
}  // namespace kiln::test
