#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "ops/linear/problem.hpp"
#include "ops/matmul/call.hpp"
#include "ops/matmul/iteration.hpp"
#include "ops/matmul/problem.hpp"
#include "ops/matmul/tiling.hpp"
#include "tests/support/planned_call.hpp"

namespace kiln::test {
namespace {

using matmul::MatmulCall;

TensorView f32(const Dims& shape) {
  return shaped(DType::f32, shape);
}
TensorView f32(const Dims& shape, const Dims& strides) {
  return shaped(DType::f32, shape, strides);
}

/// A call with a dense output, or with one of the given strides.
struct Planned : PlannedCall {
  Planned(std::string_view op, const std::vector<TensorView>& given, const Attributes& attributes_given = {},
          const Dims& out_strides = {})
      : PlannedCall(op, given, attributes_given) {
    if (!out_strides.empty()) outputs[0].strides = out_strides;
  }
  MatmulCall matmul_call() const {
    const matmul::Problem problem = spec.name == "linear"          ? linear::resolve_linear(inputs, attributes)
                                    : spec.name == "scaled_matmul" ? matmul::resolve_scaled_matmul(inputs, attributes)
                                                                   : matmul::resolve_matmul(inputs, attributes);
    return matmul::make_call(problem, call());
  }
};

/// "2[5, 1]" of a tensor's number and its strides of rows and columns, and those of the batch dimensions.
std::string text_of(const matmul::Matrix& matrix) {
  return fmt::format("{}[{}, {}{}]", matrix.tensor, matrix.row_stride, matrix.column_stride,
                     matrix.batch_strides.empty() ? "" : fmt::format("; {}", fmt::join(matrix.batch_strides, ", ")));
}

/// Extents as m x n x k, and by the batch dimensions.
std::string text_of(const MatmulCall& call) {
  return fmt::format("{}x{}x{}{} {}: {} = {} @ {}{}", call.m, call.n, call.k,
                     call.batch_extents.empty() ? "" : fmt::format(" by {}", fmt::join(call.batch_extents, ", ")),
                     name(call.accumulator), text_of(call.out), text_of(call.a), text_of(call.b),
                     call.addend_kind() == ops::kNoAddend    ? ""
                     : call.addend_kind() == ops::kRowAddend ? " + row " + text_of(call.addend)
                                                             : " + full " + text_of(call.addend));
}

TEST(MatmulCall, IsOneProductOrABatchOfThem) {
  struct Case {
    const char* name;
    Planned planned;
    const char* expected;
  };
  const Case cases[] = {
      {"one matrix", {"matmul", {f32({3, 4}), f32({4, 5})}}, "3x5x4 f32: 0[5, 1] = 1[4, 1] @ 2[5, 1]"},
      {"leading dimensions become rows",
       {"linear", {f32({2, 3, 4}), f32({5, 4}), f32({5})}},
       "6x5x4 f32: 0[5, 1] = 1[4, 1] @ 2[1, 4] + row 3[0, 1]"},
      {"but not where the strides have a gap that rows do not",
       {"linear", {f32({2, 3, 4}, {100, 4, 1}), f32({5, 4})}},
       "3x5x4 by 2 f32: 0[5, 1; 15] = 1[4, 1; 100] @ 2[1, 4; 0]"},
      {"batches of one row become rows",
       {"linear", {f32({7, 1, 4}, {9, 1, 2}), f32({5, 4})}},
       "7x5x4 f32: 0[5, 1] = 1[9, 2] @ 2[1, 4]"},
      {"batch dimensions merge",
       {"matmul", {f32({2, 3, 8, 4}), f32({2, 3, 4, 5})}},
       "8x5x4 by 6 f32: 0[5, 1; 40] = 1[4, 1; 32] @ 2[5, 1; 20]"},
      {"batch dimensions broadcast",
       {"matmul", {f32({2, 1, 8, 4}), f32({3, 4, 5})}},
       "8x5x4 by 3, 2 f32: 0[5, 1; 40, 120] = 1[4, 1; 0, 32] @ 2[5, 1; 20, 0]"},
      {"vectors are rows", {"matmul", {f32({3, 4}), f32({4})}}, "1x3x4 f32: 0[0, 1] = 2[0, 1] @ 1[1, 4]"},
      {"a batch of matrices times one vector is one product",
       {"matmul", {f32({6, 3, 4}), f32({4})}},
       "1x18x4 f32: 0[0, 1] = 2[0, 1] @ 1[1, 4]"},
      {"operands are exchanged for a transposed output",
       {"matmul", {f32({3, 4}), f32({4, 5}), f32({5})}, {}, {1, 3}},
       "5x3x4 f32: 0[3, 1] = 2[1, 5] @ 1[1, 4] + full 3[1, 0]"},
  };
  for (const Case& c : cases) EXPECT_EQ(text_of(c.planned.matmul_call()), c.expected) << c.name;
}

TEST(MatmulCall, EpilogueNamesWhatItNeeds) {
  EXPECT_EQ(Planned("linear", {f32({3, 4}), f32({5, 4}), f32({5})}, {{"activation", std::string("gelu")}})
                .matmul_call()
                .epilogue_type(),
            "kiln::ops::MatmulEpilogue<float, kiln::ops::GeluActivation, 1, false>");
  const auto gelu_of = [](DType operands) {
    return Planned("linear", {shaped(operands, {3, 4}), shaped(operands, {5, 4})},
                   {{"activation", std::string("gelu")}, {"out_dtype", DType::f16}})
        .matmul_call()
        .epilogue_type();
  };
  EXPECT_EQ(gelu_of(DType::bf16), "kiln::ops::MatmulEpilogue<float, kiln::ops::GeluNarrowActivation, 0, false>");
  EXPECT_EQ(gelu_of(DType::f64), "kiln::ops::MatmulEpilogue<double, kiln::ops::GeluActivation, 0, false>");
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
    const Config config = matmul::default_tiling(call, kHopper).config;
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
