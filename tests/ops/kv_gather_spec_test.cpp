#include <cstdint>
#include <string>
#include <vector>

#include "tests/support/error_message.hpp"
#include "tests/support/host_tensor.hpp"
#include "tests/support/matchers.hpp"

namespace kiln::test {
namespace {

const Target kGpu = parse_cuda_target("sm_90a");

TensorView on(Device device, TensorView view) {
  view.device = device;
  return view;
}

/// A gather of `pairs` rows of `row_bytes` out of `src_rows`, and which variant serves it on a GPU with which config.
struct PlannedGather {
  std::vector<TensorView> inputs;
  Attributes attributes;
  const Variant* variant = nullptr;
  Config config;

  PlannedGather(std::int64_t src_rows, std::int64_t row_bytes, std::int64_t pairs, bool is_pinned,
                const Attributes& given = {}) {
    const OpSpec& spec = spec_of("sparse_kv_gather");
    const Device gpu = Device::cuda(0);
    inputs = {on(gpu, shaped(DType::u8, {pairs, row_bytes})),
              on(is_pinned ? Device::cpu() : gpu, shaped(DType::u8, {src_rows, row_bytes})),
              on(gpu, shaped(DType::i32, {1, pairs, 2}))};
    attributes = with_defaults(spec, given);
    for (const Variant& candidate : spec.variants)
      if (variant == nullptr && candidate.serves(call(), kGpu)) variant = &candidate;
    config = variant->default_config(call(), kGpu);
  }
  OpCall call() const { return {inputs, {}, attributes}; }
  LaunchPlan plan() const { return variant->plan(call(), config, kGpu); }
};

TEST(SparseKvGather, Errors) {
  const TensorView dst = shaped(DType::u8, {4, 656}), src = shaped(DType::u8, {9, 656});
  const TensorView pairs = shaped(DType::i32, {2, 3, 2});
  EXPECT_TRUE(infer("sparse_kv_gather", {dst, src, pairs}).empty());
  EXPECT_THAT(type_refusal("sparse_kv_gather", {dst, shaped(DType::i8, {9, 656}), pairs}),
              Says("'src' is i8", "'dst' u8"));
  EXPECT_THAT(value_refusal("sparse_kv_gather", {dst, shaped(DType::u8, {9, 640}), pairs}),
              Says("(9, 640)", "(4, 656)", "rows of one shape"));
  EXPECT_THAT(value_refusal("sparse_kv_gather", {dst, shaped(DType::u8, {9, 656, 1}), pairs}),
              HasSubstr("rows of one shape"));
  EXPECT_THAT(value_refusal("sparse_kv_gather", {shaped(DType::u8, {}), shaped(DType::u8, {}), pairs}),
              Says("'dst'", "no dimensions"));
  EXPECT_THAT(value_refusal("sparse_kv_gather", {dst, src, shaped(DType::i32, {6, 2})}),
              Says("(6, 2)", "[requests, topk, 2]"));
  EXPECT_THAT(value_refusal("sparse_kv_gather", {dst, src, pairs, shaped(DType::i32, {3})}),
              Says("'counts' has shape (3)", "expected (2)"));
  EXPECT_THAT(value_refusal("sparse_kv_gather", {dst, src, pairs, TensorView{}, shaped(DType::i32, {4})}),
              Says("'slot_map' has shape (4)", "expected (9)"));
  EXPECT_THAT(value_refusal("sparse_kv_gather", {dst, src, pairs}, {{"max_sms", std::int64_t{-1}}}),
              HasSubstr("'max_sms' is -1"));
  TensorView transposed = shaped(DType::u8, {9, 656});
  transposed.strides = {1, 9};
  EXPECT_THAT(value_refusal("sparse_kv_gather", {dst, transposed, pairs}),
              Says("'src'", "not dense", "contiguous copy"));
}

TEST(SparseKvGather, ReferenceCopiesRows) {
  HostTensor dst(DType::i32, {3, 2}, std::vector<std::int64_t>{0, 0, 0, 0, 0, 0});
  HostTensor src(DType::i32, {4, 2}, std::vector<std::int64_t>{1, 2, 3, 4, 5, 6, 7, 8});
  HostTensor pairs(DType::i64, {2, 2, 2}, std::vector<std::int64_t>{3, 0, 1, 2, 0, 1, 5, 5});
  HostTensor counts(DType::i32, {2}, std::vector<std::int64_t>{2, 0});
  HostTensor slots(DType::i32, {4}, std::vector<std::int64_t>{9, 9, 9, 9});
  const OpSpec& spec = spec_of("sparse_kv_gather");
  const std::vector<TensorView> inputs = {dst.view(), src.view(), pairs.view(), counts.view(), slots.view()};
  const Attributes attributes = with_defaults(spec, {});
  spec.reference({inputs, {}, attributes});
  EXPECT_THAT(dst.values<std::int64_t>(), ElementsAre(7, 8, 0, 0, 3, 4));
  EXPECT_THAT(slots.values<std::int64_t>(), ElementsAre(9, 2, 9, 0));
}

TEST(SparseKvGather, FewRowsAreReadAsGiven) {
  const PlannedGather gather(300'000, 656, 16'384, true);
  EXPECT_EQ(gather.config.at("SORT"), 0);
  EXPECT_LE(gather.config.at("SMS"), 4);
  const LaunchPlan plan = gather.plan();
  ASSERT_EQ(plan.launches.size(), 1);
  EXPECT_TRUE(plan.workspace_bytes.empty());
  EXPECT_LE(plan.launches[0].geometry.grid[0], 4);
}

TEST(SparseKvGather, ManyRowsAreReadInOrder) {
  const PlannedGather gather(39'000'000, 656, 262'144, true);
  EXPECT_EQ(gather.config.at("SORT"), 1);
  const LaunchPlan plan = gather.plan();
  ASSERT_EQ(plan.launches.size(), 5);
  EXPECT_EQ(plan.workspace_bytes.size(), 2);
  EXPECT_EQ(PlannedGather(300'000, 656, 262'144, true).config.at("SORT"), 1) << "most of a small pool";
  EXPECT_EQ(PlannedGather(39'000'000, 656, 1000, true).config.at("SORT"), 0) << "too few to sort";
  EXPECT_EQ(PlannedGather(39'000'000, 656, 262'144, false).config.at("SORT"), 0) << "device memory";
}

TEST(SparseKvGather, MaxSmsBoundsTheGrid) {
  for (const bool is_pinned : {false, true}) {
    const PlannedGather gather(300'000, 656, 262'144, is_pinned, {{"max_sms", std::int64_t{2}}});
    EXPECT_EQ(gather.plan().launches.back().geometry.grid[0], 2);
  }
  EXPECT_EQ(PlannedGather(10, 656, 3, true).plan().launches.back().geometry.grid[0], 1)
      << "no more than there is to do";
}

TEST(SparseKvGather, ACheckComesFirst) {
  const PlannedGather gather(39'000'000, 656, 262'144, true, {{"check_bounds", true}});
  const LaunchPlan plan = gather.plan();
  ASSERT_TRUE(plan.check.has_value());
  EXPECT_EQ(plan.check->after_launches, 1);
  EXPECT_EQ(plan.check->workspace, 2);
  EXPECT_EQ(plan.launches[0].kernel, "kiln::ops::find_bad_rows_kernel");
  EXPECT_EQ(plan.launches.size(), 6);
}

TEST(SparseKvGather, RowsThatArePacketsMoveAsPackets) {
  const auto width = [](std::int64_t row_bytes, void* data) {
    PlannedGather gather(1000, row_bytes, 100, true);
    gather.inputs[1].data = data;
    return std::get<std::int64_t>(gather.plan().launches[0].template_arguments[3]);
  };
  alignas(16) static std::byte memory[32];
  EXPECT_EQ(width(656, memory), 16);
  EXPECT_EQ(width(656, memory + 8), 4);
  EXPECT_EQ(width(20, memory), 4);
  EXPECT_EQ(width(130, memory), 1);
}

}  // namespace
}  // namespace kiln::test
