#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "ops/linear/problem.hpp"
#include "ops/matmul/call.hpp"
#include "ops/matmul/iteration.hpp"
#include "ops/matmul/problem.hpp"
#include "ops/matmul/tiling.hpp"
#include "tests/support/host_tensor.hpp"

namespace kiln::test {
namespace {

using matmul::MatmulCall;

const Target kHopper = parse_cuda_target("sm_90a");
const Target kCpu{DeviceType::cpu, "any", ""};

TensorView f32(const Dims& shape) {
  return shaped(DType::f32, shape);
}
TensorView f32(const Dims& shape, const Dims& strides) {
  TensorView view = shaped(DType::f32, shape);
  view.strides = strides;
  return view;
}

/// A call with a dense output, or with one of the given strides.
struct Planned {
  std::vector<TensorView> inputs, outputs;
  Attributes attributes;
  const OpSpec& spec;

  Planned(std::string_view op, std::vector<TensorView> given, const Attributes& attributes_given = {},
          const Dims& out_strides = {})
      : inputs(std::move(given)), attributes(with_defaults(spec_of(op), attributes_given)), spec(spec_of(op)) {
    const TensorMeta meta = spec.infer(inputs, attributes).at(0);
    outputs.push_back(shaped(meta.dtype, meta.shape));
    if (!out_strides.empty()) outputs[0].strides = out_strides;
  }
  OpCall call() const { return {inputs, outputs, attributes}; }
  MatmulCall matmul_call() const {
    const matmul::Problem problem = spec.name == "linear"          ? linear::resolve_linear(inputs, attributes)
                                    : spec.name == "scaled_matmul" ? matmul::resolve_scaled_matmul(inputs, attributes)
                                                                   : matmul::resolve_matmul(inputs, attributes);
    return matmul::make_call(problem, call());
  }
};

TEST(MatmulCall, OneMatrix) {
  const MatmulCall call = Planned("matmul", {f32({3, 4}), f32({4, 5})}).matmul_call();
  EXPECT_EQ(call.m, 3);
  EXPECT_EQ(call.n, 5);
  EXPECT_EQ(call.k, 4);
  EXPECT_TRUE(call.batch_extents.empty());
  EXPECT_EQ(call.a.tensor, 1);
  EXPECT_EQ(call.a.row_stride, 4);
  EXPECT_EQ(call.a.column_stride, 1);
  EXPECT_EQ(call.b.tensor, 2);
  EXPECT_EQ(call.b.row_stride, 5);
  EXPECT_EQ(call.out.row_stride, 5);
  EXPECT_EQ(call.addend_kind(), ops::kNoAddend);
  EXPECT_EQ(call.accumulator, DType::f32);
}

TEST(MatmulCall, LeadingDimensionsBecomeRows) {
  const MatmulCall call = Planned("linear", {f32({2, 3, 4}), f32({5, 4}), f32({5})}).matmul_call();
  EXPECT_EQ(call.m, 6);
  EXPECT_EQ(call.n, 5);
  EXPECT_TRUE(call.batch_extents.empty());
  EXPECT_EQ(call.b.row_stride, 1);
  EXPECT_EQ(call.b.column_stride, 4);
  EXPECT_EQ(call.addend_kind(), ops::kRowAddend);
  EXPECT_EQ(call.addend.column_stride, 1);
  // Not where the strides have a gap that rows do not.
  const MatmulCall gap = Planned("linear", {f32({2, 3, 4}, {100, 4, 1}), f32({5, 4})}).matmul_call();
  EXPECT_EQ(gap.m, 3);
  EXPECT_EQ(gap.batch_extents, std::vector<std::int64_t>{2});
  EXPECT_EQ(gap.a.batch_strides, std::vector<std::int64_t>{100});
  EXPECT_EQ(gap.b.batch_strides, std::vector<std::int64_t>{0});
}

TEST(MatmulCall, BatchesOfOneRowBecomeRows) {
  const MatmulCall call = Planned("linear", {f32({7, 1, 4}, {9, 1, 2}), f32({5, 4})}).matmul_call();
  EXPECT_EQ(call.m, 7);
  EXPECT_EQ(call.a.row_stride, 9);
  EXPECT_EQ(call.a.column_stride, 2);
  EXPECT_EQ(call.out.row_stride, 5);
  EXPECT_TRUE(call.batch_extents.empty());
}

TEST(MatmulCall, BatchDimensionsMerge) {
  const MatmulCall call = Planned("matmul", {f32({2, 3, 8, 4}), f32({2, 3, 4, 5})}).matmul_call();
  EXPECT_EQ(call.batch_extents, std::vector<std::int64_t>{6});
  EXPECT_EQ(call.a.batch_strides, std::vector<std::int64_t>{32});
  const MatmulCall broadcast = Planned("matmul", {f32({2, 1, 8, 4}), f32({3, 4, 5})}).matmul_call();
  EXPECT_EQ(broadcast.batch_extents, (std::vector<std::int64_t>{3, 2}));
  EXPECT_EQ(broadcast.a.batch_strides, (std::vector<std::int64_t>{0, 32}));
  EXPECT_EQ(broadcast.b.batch_strides, (std::vector<std::int64_t>{20, 0}));
  EXPECT_EQ(broadcast.out.batch_strides, (std::vector<std::int64_t>{40, 120}));
}

TEST(MatmulCall, VectorsAreRows) {
  const MatmulCall call = Planned("matmul", {f32({3, 4}), f32({4})}).matmul_call();
  EXPECT_EQ(call.m, 1);
  EXPECT_EQ(call.n, 3);
  EXPECT_EQ(call.a.tensor, 2);
  EXPECT_EQ(call.a.column_stride, 1);
  EXPECT_EQ(call.b.tensor, 1);
  EXPECT_EQ(call.b.row_stride, 1);
  EXPECT_EQ(call.b.column_stride, 4);
  EXPECT_EQ(call.out.column_stride, 1);
  // A batch of matrices times one vector is one product.
  const MatmulCall batch = Planned("matmul", {f32({6, 3, 4}), f32({4})}).matmul_call();
  EXPECT_EQ(batch.m, 1);
  EXPECT_EQ(batch.n, 18);
  EXPECT_TRUE(batch.batch_extents.empty());
}

TEST(MatmulCall, ExchangesOperandsForATransposedOutput) {
  const MatmulCall call = Planned("matmul", {f32({3, 4}), f32({4, 5}), f32({5})}, {}, {1, 3}).matmul_call();
  EXPECT_EQ(call.m, 5);
  EXPECT_EQ(call.n, 3);
  EXPECT_EQ(call.a.tensor, 2);
  EXPECT_EQ(call.a.row_stride, 1);
  EXPECT_EQ(call.a.column_stride, 5);
  EXPECT_EQ(call.b.row_stride, 1);
  EXPECT_EQ(call.b.column_stride, 4);
  EXPECT_EQ(call.out.row_stride, 3);
  EXPECT_EQ(call.out.column_stride, 1);
  EXPECT_EQ(call.addend_kind(), ops::kFullAddend);
  EXPECT_EQ(call.addend.row_stride, 1);
  EXPECT_EQ(call.addend.column_stride, 0);
}

TEST(MatmulCall, EpilogueNamesWhatItNeeds) {
  EXPECT_EQ(Planned("linear", {f32({3, 4}), f32({5, 4}), f32({5})}, {{"activation", std::string("gelu")}})
                .matmul_call()
                .epilogue_type(),
            "kiln::ops::MatmulEpilogue<float, kiln::ops::GeluActivation, 1, false>");
  EXPECT_EQ(Planned("matmul", {f32({3, 4}), f32({4, 5}), f32({3, 5})}, {{"beta", 0.0}}).matmul_call().epilogue_type(),
            "kiln::ops::MatmulEpilogue<float, kiln::ops::NoActivation, 0, false>");
  const TensorView a = shaped(DType::fp8e4m3, {3, 4}), b = shaped(DType::fp8e4m3, {4, 5});
  const MatmulCall scaled = Planned("scaled_matmul", {a, b, f32({}), f32({})}).matmul_call();
  EXPECT_EQ(scaled.epilogue_type(), "kiln::ops::MatmulEpilogue<float, kiln::ops::NoActivation, 0, true>");
  EXPECT_EQ(scaled.scale_a, 3);
  EXPECT_EQ(scaled.scale_b, 4);
  const TensorView x = shaped(DType::i8, {3, 4}), y = shaped(DType::i8, {4, 5});
  EXPECT_EQ(Planned("matmul", {x, y}).matmul_call().compute, DType::i32);
  EXPECT_EQ(Planned("matmul", {x, y}, {{"out_dtype", DType::bf16}}).matmul_call().compute, DType::f32);
}

TEST(MatmulPlan, CutsKWhereTilesAreFew) {
  const auto plan = [](std::int64_t m, std::int64_t n, std::int64_t k, const Attributes& attributes = {}) {
    const Planned planned("matmul", {shaped(DType::bf16, {m, k}), shaped(DType::bf16, {k, n})}, attributes);
    const MatmulCall call = planned.matmul_call();
    const Config config = matmul::default_tiling(call, kHopper);
    matmul::tile_space(matmul::OperandClass::half, kHopper).validate(config);
    return matmul::split_k(call, config);
  };
  EXPECT_GT(plan(16, 4096, 4096).num_splits, 1);
  EXPECT_GT(plan(128, 128, 65536).num_splits, 8);
  EXPECT_EQ(plan(4096, 4096, 4096).num_splits, 1);
  EXPECT_EQ(plan(128, 128, 0).num_splits, 1);
  EXPECT_EQ(plan(128, 128, 65536, {{"num_sms", std::int64_t{4}}}).num_splits, 1);
  for (const std::int64_t k : {1, 31, 64, 65, 1000, 4097, 65537}) {
    const matmul::KSplit split = plan(64, 64, k);
    EXPECT_GE(split.num_splits * split.k_per_split, k);
    EXPECT_LT((split.num_splits - 1) * split.k_per_split, k);
  }
}

TEST(MatmulPlan, DefaultsAreInTheirSpaces) {
  for (const char* arch : {"sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a", "sm_120a"})
    for (const DType dtype : {DType::f64, DType::f32, DType::f16, DType::fp8e4m3, DType::i8})
      for (const std::int64_t m : {1, 16, 100, 1000, 8192})
        for (const std::int64_t n : {1, 16, 100, 1000, 8192})
          for (const std::int64_t k : {1, 100, 4096})
            for (const char* precision : {"ieee", "tf32"}) {
              if (dtype != DType::f32 && std::string_view(precision) == "tf32") continue;
              const Planned planned("matmul", {shaped(dtype, {m, k}), shaped(dtype, {k, n})},
                                    {{"precision", std::string(precision)}});
              for (const Target& target : {parse_cuda_target(arch), kCpu}) {
                SCOPED_TRACE(to_string(target) + " " + std::string(name(dtype)));
                const OpCall call = planned.call();
                int serving = 0;
                for (const Variant& variant : planned.spec.variants) {
                  if (!variant.serves(call, target)) continue;
                  if (++serving > 1) break;
                  EXPECT_NO_THROW(variant.space(target).validate(variant.default_config(call, target)));
                }
                EXPECT_GE(serving, 1);
              }
            }
}

TEST(MatmulPlan, NumSmsBoundsThePrograms) {
  const Planned planned("matmul", {f32({1000, 64}), f32({64, 1000})}, {{"num_sms", std::int64_t{5}}});
  const OpCall call = planned.call();
  for (const Variant& variant : planned.spec.variants) {
    if (!variant.serves(call, kHopper)) continue;
    const LaunchPlan plan = variant.plan(call, variant.default_config(call, kHopper), kHopper);
    ASSERT_EQ(plan.launches.size(), 1u);
    EXPECT_EQ(plan.launches[0].geometry.grid[0] * plan.launches[0].geometry.grid[1], 5);
  }
}

}  // namespace
}  // namespace kiln::test
