// Which kernel serves which product on which CPU. Only what holds wherever the bounds between the kernels come to lie.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/cpu_features.hpp"
#include "tests/support/planned_call.hpp"

namespace kiln::test {
namespace {

using testing::IsSupersetOf;

/// SSE alone, AVX2, AVX-512.
constexpr const char* kFeatures[] = {"+sse3,+ssse3,+sse4.1,+sse4.2,+popcnt", "+avx,+avx2,+f16c,+fma",
                                     "+avx,+avx2,+f16c,+fma,+avx512bw,+avx512cd,+avx512dq,+avx512f,+avx512vl"};

/// An operand of `rows` x `columns`, whose columns lie side by side, or where `turned` its rows.
TensorView matrix(DType dtype, std::int64_t rows, std::int64_t columns, bool turned = false) {
  return shaped(dtype, {rows, columns}, turned ? Dims{1, rows} : Dims{columns, 1});
}

TEST(MatmulVariants, AreChosenByShapeAndLayout) {
  struct Case {
    DType dtype;
    std::int64_t m, n, k;
    const char* layout;  ///< of a and b: n as they are, t with rows and columns exchanged in memory
    const char* variant;
    const char* without_avx2 = nullptr;  ///< where that is another
  };
  const Case cases[] = {
      {DType::f32, 1, 4096, 4096, "nn", "stream"},
      {DType::f64, 1, 4096, 4096, "nn", "stream"},
      {DType::f32, 4, 2048, 4096, "nn", "stream"},
      {DType::f32, 1, 4096, 4096, "nt", "inner"},
      {DType::f64, 4, 512, 4096, "nt", "inner"},
      {DType::f32, 4, 300, 100, "nt", "inner"},
      {DType::f32, 1000, 1000, 16, "nn", "outer"},
      {DType::f64, 1000, 1000, 16, "tn", "outer"},
      {DType::f32, 1000, 1000, 16, "tt", "outer"},
      {DType::f32, 1000, 1000, 1, "nt", "outer"},
      {DType::f32, 2000, 2000, 4000, "nn", "blocked"},
      {DType::f32, 2000, 2000, 4000, "tn", "blocked"},
      {DType::f32, 2000, 2000, 4000, "nt", "blocked"},
      {DType::f32, 2000, 2000, 4000, "tt", "blocked"},
      {DType::bf16, 2000, 2000, 4000, "nn", "blocked"},
      {DType::f16, 2000, 2000, 4000, "nt", "blocked"},
      {DType::f64, 2000, 2000, 4000, "nn", "blocked_f64"},
      {DType::f64, 2000, 2000, 4000, "tt", "blocked_f64"},
      {DType::i8, 100, 4096, 4096, "nn", "blocked", "tile_i8"},
      {DType::i8, 1000, 1000, 16, "nt", "blocked", "tile_i8"},
      {DType::i8, 2000, 2000, 4000, "tn", "blocked", "tile_i8"},
      {DType::f32, 4096, 2, 1408, "tn", "stream"},
      {DType::f32, 1000, 1000, 300, "tn", "blocked"},
  };
  for (const Case& c : cases) {
    const std::string layout = c.layout;
    const PlannedCall planned("matmul", {matrix(c.dtype, c.m, c.k, layout[0] == 't'),  //
                                         matrix(c.dtype, c.k, c.n, layout[1] == 't')});
    for (const char* features : kFeatures)
      EXPECT_EQ(planned.variant({DeviceType::cpu, "any", features}).name,
                c.without_avx2 != nullptr && !has_feature(features, "+avx2") ? c.without_avx2 : c.variant)
          << name(c.dtype) << " " << c.m << " x " << c.n << " x " << c.k << " " << layout << " with " << features;
  }
}

/// On a GPU few columns are few rows of the exchanged product: the large operand is read once, from rows off packets
/// too.
TEST(MatmulVariants, FewColumnsAreFewRowsOnAGpu) {
  struct Case {
    DType dtype;
    Dims a, b;
    bool turned = false;  ///< b
  };
  for (const Case& c : {Case{DType::f32, {40, 632}, {632, 2}},
                        {DType::bf16, {11800, 341}, {341, 2}, true},
                        {DType::bf16, {257, 4496, 106}, {106, 1}},
                        {DType::f32, {208, 2048, 255}, {208, 255, 1}}}) {
    const TensorView b = c.turned ? matrix(c.dtype, c.b[0], c.b[1], true) : shaped(c.dtype, c.b);
    const PlannedCall planned("matmul", {shaped(c.dtype, c.a), b});
    EXPECT_EQ(planned.variant(kHopper).name, "rows") << to_string(c.a) << " by " << to_string(c.b);
  }
}

/// Whichever variant is chosen, each that serves a product has a default of its own space, and an estimate to compare.
TEST(MatmulVariants, DefaultsOnAGpuAreOfTheirSpaces) {
  std::set<std::string> met;
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16, DType::i8})
    for (const std::int64_t m : {0, 1, 2, 3, 4, 65, 5000})
      for (const std::int64_t n : {0, 1, 2, 7, 130, 70'001})
        for (const std::int64_t k : {0, 1, 3, 16, 63, 64, 65, 4096, 100'003})
          for (const char* layout : {"nn", "nt", "tn", "tt"}) {
            const PlannedCall planned("matmul",
                                      {matrix(dtype, m, k, layout[0] == 't'), matrix(dtype, k, n, layout[1] == 't')});
            for (const Variant& variant : planned.spec.variants) {
              if (!variant.serves(planned.call(), kHopper)) continue;
              const std::string trace = fmt::format("{} of {} {}x{}x{} {}", variant.name, name(dtype), m, n, k, layout);
              const Config config = variant.default_config(planned.call(), kHopper);
              EXPECT_NO_THROW(variant.space(kHopper).validate(config)) << trace << " " << to_string(config);
              const auto estimate = variant.estimate_us ? variant.estimate_us(planned.call(), kHopper) : std::nullopt;
              EXPECT_GT(estimate.value_or(1), 0) << trace;
              met.insert(variant.name);
            }
          }
  EXPECT_THAT(met, IsSupersetOf({"rows", "rows_f64", "thin", "sm90", "tile_f32", "tile_f64", "tile_half", "tile_i8"}));
}

/// A product that one of the CPU's own kernels would serve has nothing of them on a GPU.
TEST(MatmulVariants, OfCpusServeNoGpu) {
  for (const DType dtype : {DType::f32, DType::f64})
    for (const Dims& extents : {Dims{1, 4096, 4096}, Dims{1000, 1000, 16}, Dims{2000, 2000, 4000}})
      for (const bool turned : {false, true}) {
        const PlannedCall planned(
            "matmul", {matrix(dtype, extents[0], extents[2]), matrix(dtype, extents[2], extents[1], turned)});
        int of_cpus = 0;
        for (const Variant& variant : planned.spec.variants) {
          if (!variant.doc.starts_with("CPU:")) continue;
          ++of_cpus;
          EXPECT_FALSE(variant.serves(planned.call(), kHopper)) << variant.name << " " << to_string(extents);
        }
        EXPECT_GE(of_cpus, 5);
      }
}

/// Nothing to sum, nothing to make, and both: a plan all the same, in a config of the variant's space.
TEST(MatmulVariants, ProductsOfNothingArePlanned) {
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16, DType::i8})
    for (const std::int64_t m : {0, 1, 5, 700})
      for (const std::int64_t n : {0, 1, 5, 700})
        for (const std::int64_t k : {0, 1, 700}) {
          if (m != 0 && n != 0 && k != 0) continue;
          for (const bool turned : {false, true})
            for (const char* features : kFeatures) {
              const Target target{DeviceType::cpu, "any", features};
              const PlannedCall planned("matmul", {matrix(dtype, m, k, turned), matrix(dtype, k, n, !turned)});
              LaunchPlan plan;
              EXPECT_NO_THROW(plan = planned.plan(target))
                  << name(dtype) << " " << m << " x " << n << " x " << k << (turned ? " tn" : " nt");
              EXPECT_FALSE(plan.launches.empty());
            }
        }
}

/// Every config of every variant that serves a call is planned, and needs no more programs than there can be.
TEST(MatmulVariants, EveryConfigIsPlanned) {
  struct Case {
    std::int64_t m, n, k;
  };
  for (const Case& c : {Case{1, 1, 1}, {3, 200, 5000}, {7, 4, 40}, {130, 70, 520}, {700, 33, 33}})
    for (const DType dtype : {DType::f32, DType::f64})
      for (const bool turned : {false, true})
        for (const char* features : kFeatures) {
          const Target target{DeviceType::cpu, "any", features};
          const PlannedCall planned("matmul", {matrix(dtype, c.m, c.k), matrix(dtype, c.k, c.n, turned)});
          const Variant& variant = planned.variant(target);
          for (const Config& config : variant.space(target).enumerate()) {
            LaunchPlan plan;
            EXPECT_NO_THROW(plan = planned.plan(target, config)) << variant.name << " " << to_string(config);
            for (const KernelLaunch& launch : plan.launches)
              for (const std::int64_t extent : launch.geometry.grid)
                EXPECT_GT(extent, 0) << variant.name << " " << to_string(config) << " " << c.m << " x " << c.n << " x "
                                     << c.k;
          }
        }
}

}  // namespace
}  // namespace kiln::test
