#include <cstdint>
#include <vector>

#include "tests/support/matchers.hpp"
#include "tests/support/planned_call.hpp"

namespace kiln::test {
namespace {

/// A gather of `pairs` rows of `row_bytes` out of `src_rows`.
PlannedCall planned_gather(std::int64_t src_rows, std::int64_t row_bytes, std::int64_t pairs, bool is_pinned,
                           const Attributes& given = {}) {
  const Device gpu = Device::cuda(0);
  const auto dense = [](DType dtype, const Dims& shape, Device device) {
    return dense_view(nullptr, dtype, shape, device);
  };
  return {"sparse_kv_gather",
          std::vector<TensorView>{dense(DType::u8, {pairs, row_bytes}, gpu),
                                  dense(DType::u8, {src_rows, row_bytes}, is_pinned ? Device::cpu() : gpu),
                                  dense(DType::i32, {1, pairs, 2}, gpu)},
          given};
}

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
  const PlannedCall gather = planned_gather(300'000, 656, 16'384, true);
  EXPECT_EQ(gather.config(kHopper).at("SORT"), 0);
  EXPECT_LE(gather.config(kHopper).at("SMS"), 4);
  const LaunchPlan plan = gather.plan(kHopper);
  ASSERT_EQ(plan.launches.size(), 1);
  EXPECT_TRUE(plan.workspace_bytes.empty());
  EXPECT_LE(plan.launches[0].geometry.grid[0], 4);
}

TEST(SparseKvGather, ManyRowsAreReadInOrder) {
  const PlannedCall gather = planned_gather(39'000'000, 656, 262'144, true);
  EXPECT_EQ(gather.config(kHopper).at("SORT"), 1);
  const LaunchPlan plan = gather.plan(kHopper);
  ASSERT_EQ(plan.launches.size(), 5);
  EXPECT_EQ(plan.workspace_bytes.size(), 2);
  EXPECT_EQ(planned_gather(300'000, 656, 262'144, true).config(kHopper).at("SORT"), 1) << "most of a small pool";
  EXPECT_EQ(planned_gather(39'000'000, 656, 1000, true).config(kHopper).at("SORT"), 0) << "too few to sort";
  EXPECT_EQ(planned_gather(39'000'000, 656, 262'144, false).config(kHopper).at("SORT"), 0) << "device memory";
}

TEST(SparseKvGather, MaxSmsBoundsTheGrid) {
  for (const bool is_pinned : {false, true}) {
    const PlannedCall gather = planned_gather(300'000, 656, 262'144, is_pinned, {{"max_sms", std::int64_t{2}}});
    EXPECT_EQ(gather.plan(kHopper).launches.back().geometry.grid[0], 2);
  }
  EXPECT_EQ(planned_gather(10, 656, 3, true).plan(kHopper).launches.back().geometry.grid[0], 1)
      << "no more than there is to do";
}

TEST(SparseKvGather, ACheckComesFirst) {
  const PlannedCall gather = planned_gather(39'000'000, 656, 262'144, true, {{"check_bounds", true}});
  const LaunchPlan plan = gather.plan(kHopper);
  ASSERT_TRUE(plan.check.has_value());
  EXPECT_EQ(plan.check->after_launches, 1);
  EXPECT_EQ(plan.check->workspace, 2);
  EXPECT_EQ(plan.launches[0].kernel, "kiln::ops::find_bad_rows_kernel");
  EXPECT_EQ(plan.launches.size(), 6);
}

TEST(SparseKvGather, RowsThatArePacketsMoveAsPackets) {
  const auto width = [](std::int64_t row_bytes, void* data) {
    PlannedCall gather = planned_gather(1000, row_bytes, 100, true);
    gather.inputs[1].data = data;
    return std::get<std::int64_t>(gather.plan(kHopper).launches[0].template_arguments[3]);
  };
  alignas(16) static std::byte memory[32];
  EXPECT_EQ(width(656, memory), 16);
  EXPECT_EQ(width(656, memory + 8), 4);
  EXPECT_EQ(width(20, memory), 4);
  EXPECT_EQ(width(130, memory), 1);
}

}  // namespace
}  // namespace kiln::test
