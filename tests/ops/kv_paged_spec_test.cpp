#include <cstdint>
#include <string>
#include <vector>

#include "tests/support/host_tensor.hpp"
#include "tests/support/matchers.hpp"

namespace kiln::test {
namespace {

Attributes gathered(std::int64_t max_len, const std::string& layout = "NHD") {
  return {{"max_len", max_len}, {"layout", layout}};
}

TEST(KvGatherPagedSpec, ShapeFollowsTheLayout) {
  const TensorView table = shaped(DType::i32, {5, 9}), lengths = shaped(DType::i64, {5});
  const TensorMeta nhd =
      infer("kv_gather_paged", {shaped(DType::bf16, {7, 16, 8, 128}), table, lengths}, gathered(99))[0];
  EXPECT_EQ(nhd.shape, (Dims{5, 8, 99, 128}));
  EXPECT_EQ(nhd.dtype, DType::bf16);
  EXPECT_EQ(infer("kv_gather_paged", {shaped(DType::u8, {7, 8, 16, 128}), table, lengths}, gathered(0, "HND"))[0].shape,
            (Dims{5, 8, 0, 128}));
}

TEST(KvGatherPagedSpec, Errors) {
  const TensorView cache = shaped(DType::bf16, {7, 16, 8, 128}), table = shaped(DType::i32, {5, 9}),
                   lengths = shaped(DType::i64, {5});
  const auto refused = [](const std::vector<TensorView>& inputs, const Attributes& attributes) {
    return value_refusal("kv_gather_paged", inputs, attributes);
  };
  EXPECT_THAT(refused({cache, table, lengths}, gathered(9, "HDN")), Says("\"HDN\"", "\"NHD\""));
  EXPECT_THAT(refused({cache, table, lengths}, gathered(-1)), Says("'max_len' is -1", "0 or more"));
  EXPECT_THAT(refused({shaped(DType::bf16, {7, 16, 128}), table, lengths}, gathered(9)),
              Says("'cache'", "(7, 16, 128)", "[blocks, page, H, D]"));
  EXPECT_THAT(refused({cache, lengths, lengths}, gathered(9)), Says("'block_table'", "[B, max_blocks]"));
  EXPECT_THAT(refused({cache, table, table}, gathered(9)), HasSubstr("'seq_lens'"));
  EXPECT_THAT(refused({cache, table, shaped(DType::i32, {4})}, gathered(9)), Says("4 lengths", "5 rows"));
}

TEST(KvGatherPagedSpec, IndicesAreIntegers) {
  const std::vector<InputSpec>& inputs = spec_of("kv_gather_paged").inputs;
  for (const std::size_t index : {1, 2}) EXPECT_THAT(inputs[index].dtypes, ElementsAre(DType::i32, DType::i64));
  EXPECT_TRUE(inputs[0].dtypes.empty()) << "the cache may have any";
}

TEST(KvGatherPagedSpec, ReferenceReadsPagesOfEitherLayout) {
  // One block of two places and two heads, elements place 0: 1 2, place 1: 3 4.
  HostTensor nhd(DType::i32, {1, 2, 2, 1}, std::vector<std::int64_t>{1, 2, 3, 4});
  HostTensor hnd(DType::i32, {1, 2, 2, 1}, std::vector<std::int64_t>{1, 3, 2, 4});
  HostTensor table(DType::i32, {2, 1}, std::vector<std::int64_t>{0, 5});
  HostTensor lengths(DType::i32, {2}, std::vector<std::int64_t>{9, 1});
  EXPECT_THAT(
      run_reference("kv_gather_paged", {nhd.view(), table.view(), lengths.view()}, gathered(3)).values<std::int64_t>(),
      ElementsAre(1, 3, 0, 2, 4, 0, 0, 0, 0, 0, 0, 0));
  EXPECT_THAT(run_reference("kv_gather_paged", {hnd.view(), table.view(), lengths.view()}, gathered(3, "HND"))
                  .values<std::int64_t>(),
              ElementsAre(1, 3, 0, 2, 4, 0, 0, 0, 0, 0, 0, 0));
}

}  // namespace
}  // namespace kiln::test
