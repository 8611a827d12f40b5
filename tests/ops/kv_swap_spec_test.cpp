#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "core/errors.hpp"
#include "tests/ops/host_tensor.hpp"
#include "tests/ops/usage_message.hpp"

namespace kiln {
namespace {

using kiln::testing::infer;
using kiln::testing::message_of;
using kiln::testing::shaped;
using kiln::testing::spec_of;
using ::testing::AllOf;
using ::testing::HasSubstr;

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
  const auto refused = [](UsageError::Kind kind, const std::vector<TensorView>& inputs) {
    return message_of(kind, [&] { infer("swap_blocks", inputs); });
  };
  const auto value = UsageError::Kind::value;
  EXPECT_THAT(refused(value, {shaped(DType::bf16, {}), src, mapping}),
              AllOf(HasSubstr("'dst'"), HasSubstr("[blocks, ...]")));
  EXPECT_THAT(refused(value, {dst, shaped(DType::bf16, {9, 3, 2}), mapping}),
              AllOf(HasSubstr("(9, 3, 2)"), HasSubstr("(4, 2, 3)"), HasSubstr("blocks of one shape")));
  EXPECT_THAT(refused(value, {dst, shaped(DType::bf16, {9, 6}), mapping}), HasSubstr("blocks of one shape"));
  EXPECT_THAT(refused(UsageError::Kind::type, {dst, shaped(DType::f16, {9, 2, 3}), mapping}),
              AllOf(HasSubstr("'src'"), HasSubstr("f16"), HasSubstr("bf16")));
  EXPECT_THAT(refused(value, {dst, src, shaped(DType::i64, {2, 5})}), AllOf(HasSubstr("(2, 5)"), HasSubstr("[n, 2]")));
  TensorView transposed = src;
  transposed.strides = {6, 1, 2};
  EXPECT_THAT(refused(value, {dst, transposed, mapping}), AllOf(HasSubstr("'src'"), HasSubstr("not dense")));
}

}  // namespace
}  // namespace kiln
