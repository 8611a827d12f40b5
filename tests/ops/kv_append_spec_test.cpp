#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/support/host_tensor.hpp"
#include "tests/support/matchers.hpp"

namespace kiln::test {
namespace {

TEST(KvAppendSpec, ChangesTheCachesAndMakesNoOutput) {
  const OpSpec& spec = spec_of("kv_append");
  std::vector<std::string> changed;
  for (const InputSpec& input : spec.inputs)
    if (input.mutated) changed.push_back(input.name);
  EXPECT_THAT(changed, ElementsAre("key_cache", "value_cache"));
  const TensorView rows = shaped(DType::f16, {9, 4, 80}), cache = shaped(DType::f16, {5, 4, 16, 80});
  EXPECT_TRUE(infer("kv_append", {rows, rows, cache, cache, shaped(DType::i32, {9})}, {{"layout", std::string("HND")}})
                  .empty());
}

TEST(KvAppendSpec, Errors) {
  const TensorView rows = shaped(DType::bf16, {9, 8, 128}), cache = shaped(DType::bf16, {5, 16, 8, 128}),
                   slots = shaped(DType::i64, {9});
  EXPECT_THAT(value_refusal("kv_append", {cache, rows, cache, cache, slots}), Says("'key'", "[T, H, D]"));
  EXPECT_THAT(value_refusal("kv_append", {rows, shaped(DType::bf16, {9, 8, 64}), cache, cache, slots}),
              Says("'value'", "(9, 8, 64)", "(9, 8, 128)"));
  EXPECT_THAT(type_refusal("kv_append", {rows, rows, shaped(DType::fp8e4m3, {5, 16, 8, 128}), cache, slots}),
              Says("'key_cache'", "fp8e4m3", "bf16"));
  EXPECT_THAT(value_refusal("kv_append", {rows, rows, cache, cache, slots}, {{"layout", std::string("HND")}}),
              Says("(5, 16, 8, 128)", "[blocks, H, page, D]", "16 heads", "'key' (9, 8, 128)"));
  EXPECT_THAT(value_refusal("kv_append", {rows, rows, cache, shaped(DType::bf16, {6, 16, 8, 128}), slots}),
              Says("'value_cache'", "'key_cache'"));
  EXPECT_THAT(value_refusal("kv_append", {rows, rows, cache, cache, shaped(DType::i64, {8})}),
              Says("8 slots", "9 tokens"));
}

TEST(KvAppendSpec, ErrorsOfLayers) {
  const TensorView rows = shaped(DType::bf16, {3, 9, 8, 128}), table = shaped(DType::i64, {3}),
                   slots = shaped(DType::i64, {9});
  const auto with = [](std::int64_t num_blocks, std::int64_t page, std::int64_t block_stride) {
    return Attributes{{"num_blocks", num_blocks}, {"page", page}, {"block_stride", block_stride}};
  };
  EXPECT_TRUE(infer("kv_append_layers", {rows, rows, table, table, slots}, with(5, 16, 20000)).empty());
  EXPECT_THAT(value_refusal("kv_append_layers", {rows, rows, table, shaped(DType::i64, {2}), slots}, with(5, 16, 0)),
              Says("'value_caches'", "2 addresses", "3 layers"));
  EXPECT_THAT(value_refusal("kv_append_layers", {rows, rows, table, table, slots}, with(5, 0, 0)),
              Says("5 and 0", "1 or more tokens"));
  EXPECT_THAT(value_refusal("kv_append_layers", {rows, rows, table, table, slots}, with(5, 16, 16000)),
              Says("16000", "16 * 8 * 128 = 16384"));
}

TEST(KvAppendSpec, ReferenceSkipsNegativeSlotsAndSlotsBehindTheCache) {
  HostTensor rows(DType::i32, {3, 1, 1}, std::vector<std::int64_t>{1, 2, 3});
  HostTensor keys(DType::i32, {2, 1, 1, 1}, std::vector<std::int64_t>{7, 7});
  HostTensor values(DType::i32, {2, 1, 1, 1}, std::vector<std::int64_t>{8, 8});
  HostTensor slots(DType::i32, {3}, std::vector<std::int64_t>{-2, 2, 1});
  const std::array inputs = {rows.view(), rows.view(), keys.view(), values.view(), slots.view()};
  const OpSpec& spec = spec_of("kv_append");
  spec.reference({inputs, {}, with_defaults(spec, {})});
  EXPECT_THAT(keys.values<std::int64_t>(), ElementsAre(7, 3));
  EXPECT_THAT(values.values<std::int64_t>(), ElementsAre(8, 3));
}

}  // namespace
}  // namespace kiln::test
