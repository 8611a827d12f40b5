#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "ops/linear/problem.hpp"
#include "ops/matmul/call_sm90.hpp"
#include "tests/ops/host_tensor.hpp"

namespace kiln {
namespace {

using kiln::testing::shaped;
using kiln::testing::spec_of;
using kiln::testing::with_defaults;
using matmul::Sm90Call;
using matmul::Sm90Form;

const Target kHopper = parse_cuda_target("sm_90a");

TensorView bf16(const Dims& shape, const Dims& strides) {
  TensorView view = shaped(DType::bf16, shape);
  view.strides = strides;
  return view;
}
TensorView bf16(const Dims& shape) {
  return shaped(DType::bf16, shape);
}

/// linear of these inputs, as one form of the kernel takes it.
std::optional<Sm90Call> linear_call(const std::vector<TensorView>& inputs, Sm90Form form,
                                    const Attributes& given = {}) {
  const OpSpec& spec = spec_of("linear");
  const Attributes attributes = with_defaults(spec, given);
  const TensorMeta meta = spec.infer(inputs, attributes).at(0);
  const std::vector<TensorView> outputs{shaped(meta.dtype, meta.shape)};
  const OpCall call{inputs, outputs, attributes};
  return matmul::sm90_call(matmul::make_call(linear::resolve_linear(inputs, attributes), call), call, kHopper, form);
}

/// Variant and default config of a call: "sm90 BLOCK_M=128 ...".
std::string default_of(std::string_view op, const std::vector<TensorView>& inputs) {
  const OpSpec& spec = spec_of(op);
  const Attributes attributes = with_defaults(spec, {});
  const TensorMeta meta = spec.infer(inputs, attributes).at(0);
  const std::vector<TensorView> outputs{shaped(meta.dtype, meta.shape)};
  const OpCall call{inputs, outputs, attributes};
  const auto variant = std::find_if(spec.variants.begin(), spec.variants.end(),
                                    [&](const Variant& candidate) { return candidate.serves(call, kHopper); });
  return variant->name + " " + to_string(variant->default_config(call, kHopper));
}

TEST(MatmulSm90Call, ANarrowProductCopiesItsSmallOperandAlone) {
  constexpr std::int64_t kIn = 4093, kPitch = 4096;
  const TensorView x = bf16({16, kIn}), stored = bf16({8192, kIn}), packed = bf16({8192, kIn}, {kPitch, 1});
  const auto call = linear_call({x, packed}, Sm90Form::narrow);
  ASSERT_TRUE(call.has_value());
  EXPECT_TRUE(call->transposed);
  EXPECT_EQ(call->a.workspace, -1);
  EXPECT_EQ(call->b.workspace, 0);
  EXPECT_FALSE(call->b.is_mn);
  EXPECT_FALSE(linear_call({x, stored}, Sm90Form::narrow).has_value());
  EXPECT_FALSE(linear_call({bf16({16, kIn}, {kPitch, 1}), stored}, Sm90Form::narrow).has_value());
}

TEST(MatmulSm90Call, NothingIsCopiedWhereProcessorsAreToBeLeftAlone) {
  const std::vector<TensorView> inputs{bf16({4096, 4093}), bf16({4096, 4093})};
  EXPECT_TRUE(linear_call(inputs, Sm90Form::wide).has_value());
  EXPECT_FALSE(linear_call(inputs, Sm90Form::wide, {{"num_sms", std::int64_t{64}}}).has_value());
}

/// A bias takes time at the end of a tile, which two groups with tiles of their own hide: worth it where large tiles
/// fill the last round badly.
TEST(MatmulSm90Call, ABiasCountsInTheChoiceOfTiles) {
  const auto tile_each = [](const std::string& config) { return config.find("TILE_EACH=1") != std::string::npos; };
  const std::vector<TensorView> wide{bf16({4096, 2048}), bf16({7168, 2048}), bf16({7168})};
  EXPECT_TRUE(tile_each(default_of("linear_relu", wide))) << default_of("linear_relu", wide);
  const std::vector<TensorView> square{bf16({4096, 4096}), bf16({4096, 4096}), bf16({4096})};
  EXPECT_FALSE(tile_each(default_of("linear_relu", square)));
  EXPECT_NE(default_of("linear_relu", square).find("BLOCK_M=128 BLOCK_N=256"), std::string::npos)
      << default_of("linear_relu", square);
}

}  // namespace
}  // namespace kiln
