#include <vector>

#include "tests/support/host_tensor.hpp"
#include "tests/support/matchers.hpp"

namespace kiln::test {
namespace {

TEST(SwapBlocksSpec, EitherSideMayLieOnTheHost) {
  const std::vector<InputSpec>& inputs = spec_of("swap_blocks").inputs;
  EXPECT_TRUE(inputs[0].mutated && inputs[0].pinned);
  EXPECT_TRUE(!inputs[1].mutated && inputs[1].pinned);
  EXPECT_FALSE(inputs[2].pinned);
  TensorView gaps = shaped(DType::u8, {4, 2, 3});
  gaps.strides = {100, 3, 1};
  EXPECT_TRUE(infer("swap_blocks", {gaps, shaped(DType::u8, {9, 2, 3}), shaped(DType::i32, {5, 2})}).empty());
}

TEST(SwapBlocksSpec, Errors) {
  const TensorView dst = shaped(DType::bf16, {4, 2, 3}), src = shaped(DType::bf16, {9, 2, 3}),
                   mapping = shaped(DType::i64, {5, 2});
  EXPECT_THAT(value_refusal("swap_blocks", {shaped(DType::bf16, {}), src, mapping}), Says("'dst'", "[blocks, ...]"));
  EXPECT_THAT(value_refusal("swap_blocks", {dst, shaped(DType::bf16, {9, 3, 2}), mapping}),
              Says("(9, 3, 2)", "(4, 2, 3)", "blocks of one shape"));
  EXPECT_THAT(value_refusal("swap_blocks", {dst, shaped(DType::bf16, {9, 6}), mapping}),
              HasSubstr("blocks of one shape"));
  EXPECT_THAT(type_refusal("swap_blocks", {dst, shaped(DType::f16, {9, 2, 3}), mapping}), Says("'src'", "f16", "bf16"));
  EXPECT_THAT(value_refusal("swap_blocks", {dst, src, shaped(DType::i64, {2, 5})}), Says("(2, 5)", "[n, 2]"));
  TensorView transposed = src;
  transposed.strides = {6, 1, 2};
  EXPECT_THAT(value_refusal("swap_blocks", {dst, transposed, mapping}), Says("'src'", "not dense"));
}

}  // namespace
}  // namespace kiln::test
