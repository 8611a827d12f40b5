#include <gtest/gtest.h>

#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "ops/linear/problem.hpp"
#include "ops/matmul/call_sm90.hpp"
#include "ops/matmul/problem.hpp"
#include "ops/matmul/tiling_sm90.hpp"
#include "tests/support/matchers.hpp"
#include "tests/support/planned_call.hpp"

namespace kiln::test {
namespace {

using matmul::Sm90Call;
using matmul::Sm90Form;

TensorView bf16(const Dims& shape, const Dims& strides) {
  return shaped(DType::bf16, shape, strides);
}
TensorView bf16(const Dims& shape) {
  return shaped(DType::bf16, shape);
}

/// linear of these inputs, as one form of the kernel takes it.
std::optional<Sm90Call> linear_call(const std::vector<TensorView>& inputs, Sm90Form form,
                                    const Attributes& given = {}) {
  const PlannedCall planned("linear", inputs, given);
  const OpCall call = planned.call();
  const auto taken =
      matmul::sm90_call(matmul::make_call(linear::resolve_linear(inputs, planned.attributes), call), call);
  return taken && taken->form == form ? taken : std::nullopt;
}

/// Variant and default config of a call: "sm90 BLOCK_M=128 ...".
std::string default_of(std::string_view op, const std::vector<TensorView>& inputs) {
  const PlannedCall call(op, inputs);
  return call.variant(kHopper).name + " " + to_string(call.config(kHopper));
}

const Variant& variant_of(const OpSpec& spec, const std::string& name) {
  return *std::find_if(spec.variants.begin(), spec.variants.end(),
                       [&](const Variant& variant) { return variant.name == name; });
}

bool copies_matrix(const KernelLaunch& launch) {
  return launch.source.path == "ops/layout/kernel.hpp";
}

TEST(MatmulSm90Call, TheKernelTakesItsConfigFieldByField) {
  const OpSpec& spec = spec_of("matmul");
  const std::vector<TensorView> inputs{bf16({512, 128}), bf16({128, 1024})}, outputs{bf16({512, 1024})};
  const Attributes attributes = with_defaults(spec, {});
  const OpCall call{inputs, outputs, attributes};
  const Variant* const variant = &variant_of(spec, "sm90");
  ASSERT_TRUE(variant->serves(call, kHopper));
  const auto arguments = [&](const Config& config) {
    const LaunchPlan plan = variant->plan(call, config, kHopper);
    std::vector<std::string> texts;
    for (const TemplateArgument& argument : plan.launches.at(0).template_arguments) texts.push_back(spell(argument));
    return texts;
  };
  Config config{{"BLOCK_M", 256}, {"BLOCK_N", 128}, {"NUM_STAGES", 3},  {"CLUSTER_M", 2},
                {"CLUSTER_N", 4}, {"SPLIT_K", 1},   {"MATH_GROUPS", 2}, {"TILE_EACH", 1},
                {"RESIDENT", 1},  {"K_SHARE", 0},   {"EXCHANGE", 0},    {"GROUP_M", 16}};
  const std::vector<std::string> whole = arguments(config);
  ASSERT_EQ(whole.size(), 7u);
  EXPECT_EQ(whole[5],
            "kiln::ops::MatmulSm90Tiling{.block_m = 256, .block_n = 128, .stages = 3, .cluster_m = 2, .cluster_n = 4, "
            ".split_k = 1, .math_groups = 2, .tile_each = true, .resident = 1, .shares = false}");
  EXPECT_EQ(whole[6],
            "kiln::ops::MatmulSm90Layout{.a_is_mn = false, .b_is_mn = true, .transposed = false, "
            ".out_is_mapped = true}");
  // k has two blocks of 128 bytes, so two blocks share it.
  config = {{"BLOCK_M", 64},  {"BLOCK_N", 64}, {"NUM_STAGES", 8},  {"CLUSTER_M", 1},
            {"CLUSTER_N", 1}, {"SPLIT_K", 4},  {"MATH_GROUPS", 1}, {"TILE_EACH", 0},
            {"RESIDENT", 1},  {"K_SHARE", 0},  {"EXCHANGE", 0},    {"GROUP_M", 8}};
  EXPECT_EQ(arguments(config)[5],
            "kiln::ops::MatmulSm90Tiling{.block_m = 64, .block_n = 64, .stages = 8, .cluster_m = 1, .cluster_n = 1, "
            ".split_k = 2, .math_groups = 1, .tile_each = false, .resident = 1, .shares = false}");
  // Of twice as many columns each of two would have more than its buffer takes of a wide output: k stays whole.
  config.set("BLOCK_N", 128);
  EXPECT_THAT(arguments(config)[5], ::testing::HasSubstr(".split_k = 1,"));
  config.set("BLOCK_N", 64);
  // The other order of operands: its product's rows are what lies contiguous.
  config.set("EXCHANGE", 1);
  EXPECT_EQ(arguments(config)[6],
            "kiln::ops::MatmulSm90Layout{.a_is_mn = true, .b_is_mn = false, .transposed = true, "
            ".out_is_mapped = true}");
}

/// The config of a tile of 128 x 128, one block to a cluster.
Config sharing_config(std::int64_t k_share) {
  return {{"BLOCK_M", 128}, {"BLOCK_N", 128},     {"NUM_STAGES", 5},  {"CLUSTER_M", 1},
          {"CLUSTER_N", 1}, {"SPLIT_K", 1},       {"MATH_GROUPS", 2}, {"TILE_EACH", 0},
          {"RESIDENT", 1},  {"K_SHARE", k_share}, {"EXCHANGE", 0},    {"GROUP_M", 8}};
}

matmul::Sm90Division division_of(std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t k_share,
                                 const Attributes& given = {}, DType dtype = DType::bf16) {
  const std::vector<TensorView> inputs{shaped(dtype, {m, k}), shaped(dtype, {k, n})};
  const PlannedCall planned("matmul", inputs, given);
  const OpCall call = planned.call();
  const auto taken =
      matmul::sm90_call(matmul::make_call(matmul::resolve_matmul(inputs, planned.attributes), call), call);
  return matmul::sm90_division(taken.value(), matmul::sm90_choice(sharing_config(k_share)), {132, 120}, true);
}

TEST(MatmulSm90Call, TilesThatDoNotOccupyAllClustersAreShared) {
  // One tile, and 1024 blocks of k: 8 to a cluster, the last one has none left.
  matmul::Sm90Division division = division_of(128, 128, 65536, 4);
  EXPECT_EQ(division.whole_tiles, 0);
  EXPECT_EQ(division.share, 8);
  EXPECT_EQ(division.num_shares, 128);
  EXPECT_EQ(division.clusters, 128);
  // So many blocks at least.
  EXPECT_EQ(division_of(128, 128, 65536, 16).clusters, 64);
  // 24 x 24 tiles of 128: 4 rounds of 132, and 48 that are shared.
  division = division_of(3072, 3072, 3072, 4);
  EXPECT_EQ(division.tiles, 576);
  EXPECT_EQ(division.whole_tiles, 528);
  EXPECT_EQ(division.share, 18);  // of 48 * 48 blocks
  EXPECT_EQ(division.clusters, 132);
  EXPECT_TRUE(division.tiling.shares);
  // Nothing to share: k is short, or there are as many tiles as clusters.
  for (const matmul::Sm90Division& whole :
       {division_of(128, 128, 256, 4), division_of(128 * 132, 128, 4096, 4), division_of(128, 128, 65536, 0)}) {
    EXPECT_FALSE(whole.tiling.shares);
    EXPECT_EQ(whole.whole_tiles, whole.tiles);
    EXPECT_EQ(whole.clusters, whole.tiles);
  }
}

/// Clusters that share k go along it together where an operand that does not stay in the L2 is for several of them.
TEST(MatmulSm90Call, ClustersThatReadTheSameGoAlongKTogether) {
  struct Case {
    std::int64_t m, n, k, team, band_rows, share, clusters;
  };
  for (const Case& c : std::initializer_list<Case>{
           {2048, 264, 16384, 3, 1, 94, 132},     // a of 64 MB: 16 teams of 3 tiles for 44 places
           {264, 2048, 16384, 3, 3, 94, 132},     // b
           {264, 2048, 2048, 1, 3, 12, 128},      // both stay there
           {2048, 512, 65536, 16, 16, 512, 128},  // two parts for each of 64 tiles: 4 clusters have nothing
       }) {
    const matmul::Sm90Division division = division_of(c.m, c.n, c.k, 4);
    EXPECT_TRUE(division.tiling.shares);
    EXPECT_THAT((std::vector{division.team, division.band_rows, division.share, division.clusters}),
                ElementsAre(c.team, c.band_rows, c.share, c.clusters))
        << c.m << " x " << c.n << " x " << c.k;
  }
}

/// Sums of fp8 keep about 14 bits of what is added: no cluster adds up more than 256 blocks of 128 of them, whatever
/// the config says, but where k may not be split.
TEST(MatmulSm90Call, LongSumsOfFp8AreCut) {
  for (const std::int64_t k_share : {0, 4, 512})
    for (const std::int64_t m : {128, 4096, 128 * 132}) {
      const matmul::Sm90Division cut = division_of(m, 256, 131088, k_share, {}, DType::fp8e4m3);
      EXPECT_TRUE(cut.tiling.shares);
      EXPECT_EQ(cut.whole_tiles, 0);
      EXPECT_LE(cut.share, 256);
      EXPECT_EQ(cut.clusters, cut.num_shares);
      EXPECT_GE(cut.num_shares * cut.share, cut.tiles * 1025) << m << ", K_SHARE=" << k_share;
    }
  EXPECT_EQ(division_of(128 * 132, 256, 32768, 0, {}, DType::fp8e4m3).whole_tiles, 264);
  EXPECT_EQ(division_of(128 * 132, 256, 131072, 0).whole_tiles, 264);  // of bf16
}

TEST(MatmulSm90Call, BoxesAreEqualPartsOfWhatABlockAsksFor) {
  for (const auto& [rows, of_box] : {std::pair{16, 16},
                                     {48, 48},
                                     {64, 64},
                                     {80, 40},
                                     {96, 48},
                                     {112, 56},
                                     {128, 64},
                                     {160, 40},
                                     {192, 64},
                                     {224, 56},
                                     {256, 64}})
    EXPECT_EQ(ops::matmul_sm90_box_rows(rows), of_box) << rows;
}

/// Blocks that share panels take turns at them, or equal parts of the rows of one.
TEST(MatmulSm90Call, PanelsGoRoundAmongTheBlocksThatShareThem) {
  for (const auto& [panels, sharers, of_panels] :
       {std::tuple{2, 1, 1}, {2, 2, 2}, {2, 4, 2}, {4, 4, 4}, {3, 2, 1}, {3, 4, 1}, {1, 4, 1}, {4, 2, 2}})
    EXPECT_EQ(ops::matmul_sm90_panel_sharers(panels, sharers), of_panels) << panels << " for " << sharers;
}

Sm90Call matmul_call(const std::vector<TensorView>& inputs) {
  const PlannedCall planned("matmul", inputs);
  const OpCall call = planned.call();
  return matmul::sm90_call(matmul::make_call(matmul::resolve_matmul(inputs, planned.attributes), call), call).value();
}

matmul::Sm90Division clustered_division(const matmul::Sm90Processors& processors, int cluster_m, int cluster_n,
                                        std::int64_t k_share, bool may_split = true) {
  const Sm90Call call = matmul_call({bf16({8192, 4096}), bf16({4096, 8192})});
  Config config = sharing_config(k_share);
  config.set("CLUSTER_M", cluster_m);
  config.set("CLUSTER_N", cluster_n);
  return matmul::sm90_division(call, matmul::sm90_choice(config), processors, may_split);
}

/// Clusters of more than two blocks leave some processors idle, as a GPU's parts are; where fewer may be used than a
/// cluster has blocks, there is none.
TEST(MatmulSm90Call, NoMoreClustersThanRunAtATime) {
  struct Case {
    std::int64_t processors, in_clusters;
    int cluster_m, cluster_n;
    std::int64_t clusters;
  };
  for (const Case& c : std::initializer_list<Case>{{132, 120, 1, 1, 132},
                                                   {132, 120, 2, 1, 66},
                                                   {132, 120, 4, 1, 30},
                                                   {132, 120, 2, 4, 15},
                                                   {132, 128, 4, 2, 16},
                                                   {4, 4, 2, 4, 4}})
    EXPECT_EQ(clustered_division({c.processors, c.in_clusters}, c.cluster_m, c.cluster_n, 0).clusters, c.clusters)
        << c.processors << ", " << c.cluster_m << " x " << c.cluster_n;
}

/// Sixteen parts of k are a cluster that a GPU of few multiprocessors may not run.
TEST(MatmulSm90Call, SixteenPartsOfKTakeALargeGpu) {
  const Sm90Call call = matmul_call({bf16({16, 65536}), bf16({65536, 64})});
  matmul::Sm90Choice choice{.tiling = ops::matmul_sm90_piece(16)};
  choice.tiling.split_k = 16;
  for (const auto& [processors, parts] :
       {std::pair<matmul::Sm90Processors, int>{{132, 120}, 16}, {{121, 112}, 16}, {{120, 112}, 8}, {{78, 64}, 8}})
    EXPECT_EQ(matmul::sm90_division(call, choice, processors, true).tiling.split_k, parts) << processors.all;
}

/// A weight's kernel that shares tiles is another call's that leaves them whole.
TEST(MatmulSm90Call, AKernelThatCouldShareMayLeaveTilesWhole) {
  for (const std::int64_t k_share : {std::int64_t{4}, matmul::kNoShare}) {
    const matmul::Sm90Division division = clustered_division({132, 120}, 1, 1, k_share);
    EXPECT_TRUE(division.tiling.shares);
    EXPECT_EQ(division.num_shares > 0, k_share == 4);
    EXPECT_EQ(division.whole_tiles == division.tiles, k_share != 4);
  }
}

TEST(MatmulSm90Call, ANarrowProductCopiesItsSmallOperandAlone) {
  constexpr std::int64_t kIn = 4093, kPitch = 4096;
  const TensorView x = bf16({16, kIn}), stored = bf16({8192, kIn}), packed = bf16({8192, kIn}, {kPitch, 1});
  auto call = linear_call({x, packed}, Sm90Form::narrow);
  ASSERT_TRUE(call.has_value());
  EXPECT_TRUE(call->transposed);
  EXPECT_EQ(call->a.workspace, -1);
  EXPECT_EQ(call->b.workspace, 0);
  EXPECT_FALSE(call->b.is_mn);
  call = linear_call({bf16({16, kIn}, {kPitch, 1}), stored}, Sm90Form::narrow);
  ASSERT_TRUE(call.has_value());
  EXPECT_EQ(call->a.workspace, 0);
  EXPECT_EQ(call->b.workspace, -1);
}

/// Operands that change places, in a narrow product or by EXCHANGE, keep their workspaces.
TEST(MatmulSm90Call, EachCopyHasRoomForItsOperand) {
  struct Case {
    std::int64_t batches, m, n, k;
    std::string variant;
  };
  for (const Case& c : {Case{1, 3, 5001, 4093, "sm90_narrow"}, Case{1, 5001, 3, 4093, "sm90_narrow"},
                        Case{5, 4097, 4096, 8191, "sm90"}, Case{2, 33, 515, 77, "sm90"}}) {
    const auto across = [&](std::int64_t rows, std::int64_t columns) {
      return bf16({c.batches, rows, columns}, {rows * columns, 1, rows});
    };
    const PlannedCall planned("matmul", {across(c.m, c.k), across(c.k, c.n)});
    const Variant& variant = variant_of(planned.spec, c.variant);
    Config config = variant.default_config(planned.call(), kHopper);
    for (const std::int64_t exchange : {0, 1}) {
      config.set("EXCHANGE", c.variant == "sm90" ? exchange : 0);
      const LaunchPlan plan = variant.plan(planned.call(), config, kHopper);
      for (const KernelLaunch& launch : plan.launches)
        for (const auto& slot : launch.arguments.tensor_maps()) {
          if (slot.map.workspace_index < 0) continue;
          EXPECT_GE(plan.workspace_bytes.at(static_cast<std::size_t>(slot.map.workspace_index)),
                    slot.map.strides_bytes[1] * slot.map.extents[2])
              << c.m << " x " << c.n << " x " << c.k << ", " << to_string(config);
        }
      EXPECT_EQ(std::count_if(plan.launches.begin(), plan.launches.end(), copies_matrix), 2);
    }
  }
}

/// What is chosen can launch, however the operands lie.
TEST(MatmulSm90Call, EachConfigOfARankingIsOneOfTheSpace) {
  const OpSpec& spec = spec_of("matmul");
  for (const std::int64_t m : {3, 64, 136, 5000})
    for (const bool a_across : {false, true})
      for (const bool b_across : {false, true}) {
        constexpr std::int64_t kN = 5080, kK = 50304;
        const PlannedCall planned("matmul", {a_across ? bf16({m, kK}, {1, m}) : bf16({m, kK}),
                                             b_across ? bf16({kK, kN}, {1, kK}) : bf16({kK, kN})});
        for (const Variant& variant : spec.variants) {
          if (!variant.ranking || !variant.serves(planned.call(), kHopper)) continue;
          for (const Config& config : variant.ranking(planned.call(), kHopper))
            EXPECT_NO_THROW(variant.space(kHopper).validate(config)) << variant.name << " " << to_string(config);
        }
      }
}

/// Of 8-bit outputs a block of a cluster that shares k may store 8 columns, which no box has.
TEST(MatmulSm90Call, BytesOfFewColumnsLeaveWithoutABox) {
  for (const std::int64_t n : {12, 16}) {
    const PlannedCall planned("matmul", {bf16({4096, 4096}), bf16({4096, n})}, {{"out_dtype", DType::fp8e4m3}});
    const Variant& variant = variant_of(planned.spec, "sm90_narrow");
    Config config = variant.default_config(planned.call(), kHopper);
    config.set("BLOCK_N", 16);
    for (const std::int64_t split : {1, 2}) {
      config.set("SPLIT_K", split);
      const KernelLaunch launch = variant.plan(planned.call(), config, kHopper).launches.back();
      EXPECT_EQ(spelled(launch).find(".out_is_mapped = true") != std::string::npos, n == 16 && split == 1);
    }
  }
}

TEST(MatmulSm90Call, AnEmptyBatchIsNothingForIt) {
  const PlannedCall planned("matmul", {bf16({0, 128, 256}), bf16({0, 256, 512})});
  EXPECT_FALSE(variant_of(planned.spec, "sm90").serves(planned.call(), kHopper));
  EXPECT_NO_THROW(planned.variant(kHopper));
}

/// What an engine compiles for a weight, however many rows it is multiplied by.
TEST(MatmulSm90Call, AWeightTakesFewKernels) {
  constexpr std::size_t kMost = 8;
  struct Weight {
    std::int64_t n, k;
    bool along_k;
  };
  for (const auto& [n, k, along_k] : {Weight{4096, 4096, true},
                                      {14336, 4096, true},
                                      {4096, 14336, true},
                                      {1024, 8192, true},
                                      {128256, 4096, true},
                                      {4096, 4096, false},
                                      {8192, 4096, false},
                                      {512, 14336, false},
                                      {4096, 28672, false}}) {
    std::set<std::string> kernels;
    for (std::int64_t m = 1; m <= 8192; m += m < 260 ? 1 : 61) {
      const PlannedCall planned(along_k ? "linear" : "matmul", {bf16({m, k}), along_k ? bf16({n, k}) : bf16({k, n})});
      const Variant& variant = planned.variant(kHopper);
      for (const KernelLaunch& launch : planned.plan(kHopper).launches)
        kernels.insert(variant.kernel + launch.kernel + "<" + spelled(launch) + ">");
    }
    std::string all;
    for (const std::string& kernel : kernels) all += "\n" + kernel;
    EXPECT_LE(kernels.size(), kMost) << n << " x " << k << (along_k ? " along k" : " across k") << all;
  }
}

/// Few rows of a long k are cut into as many parts as a cluster has blocks, which takes no kernel to combine with.
TEST(MatmulSm90Call, FewRowsOfAWeightShareALongK) {
  const std::string chosen = default_of("linear", {bf16({32, 41408}), bf16({264, 41408})});
  EXPECT_THAT(chosen, testing::HasSubstr("SPLIT_K=16"));
  EXPECT_THAT(chosen, testing::HasSubstr("K_SHARE=0"));
  EXPECT_THAT(default_of("linear", {bf16({32, 4096}), bf16({11008, 4096})}),
              testing::Not(testing::HasSubstr("SPLIT_K=16")));
}

/// Rows of few columns are whole boxes.
TEST(MatmulSm90Call, ANarrowOperandIsReadAcrossK) {
  const auto call = linear_call({bf16({16, 4096}, {1, 16}), bf16({8192, 4096})}, Sm90Form::narrow);
  ASSERT_TRUE(call.has_value());
  EXPECT_TRUE(call->b.is_mn);
  EXPECT_EQ(call->b.workspace, -1);
}

/// tf32, fp8 and i8: one operand may lie along m or n, and is the first, whose product is transposed if that was b.
TEST(MatmulSm90Call, OneNarrowTypeOperandAcrossKIsReadAsItLies) {
  constexpr std::int64_t kRows = 512, kOut = 1024, kIn = 768;
  for (const DType dtype : {DType::f32, DType::fp8e4m3, DType::i8}) {
    const Attributes attributes = dtype == DType::f32 ? Attributes{{"precision", std::string("tf32")}} : Attributes{};
    const auto call_of = [&](bool x_across, bool weight_across) {
      TensorView x = shaped(dtype, {kRows, kIn}), weight = shaped(dtype, {kOut, kIn});
      if (x_across) x.strides = {1, kRows};
      if (weight_across) weight.strides = {1, kOut};
      return linear_call({x, weight}, Sm90Form::wide, attributes).value();
    };
    const auto copies = [](const Sm90Call& call) { return (call.a.workspace >= 0) + (call.b.workspace >= 0); };
    SCOPED_TRACE(name(dtype));
    for (const bool x_across : {false, true})
      for (const bool weight_across : {false, true}) {
        const Sm90Call call = call_of(x_across, weight_across);
        EXPECT_EQ(call.transposed, weight_across);
        EXPECT_EQ(call.m, weight_across ? kOut : kRows);
        EXPECT_EQ(call.a.is_mn, x_across || weight_across);
        EXPECT_FALSE(call.b.is_mn);
        // Of two the smaller, x, is copied.
        EXPECT_EQ(copies(call), x_across && weight_across ? 1 : 0);
        EXPECT_EQ(call.a.workspace, -1);
      }
  }
}

TEST(MatmulSm90Call, NothingIsCopiedWhereProcessorsAreToBeLeftAlone) {
  const std::vector<TensorView> inputs{bf16({4096, 4093}), bf16({4096, 4093})};
  EXPECT_TRUE(linear_call(inputs, Sm90Form::wide).has_value());
  EXPECT_FALSE(linear_call(inputs, Sm90Form::wide, {{"num_sms", std::int64_t{64}}}).has_value());
}

/// A bias takes time at the end of a tile.
TEST(MatmulSm90Call, ABiasCountsInTheEstimate) {
  const auto estimate_us = [](const std::vector<TensorView>& inputs) {
    const PlannedCall planned("linear", inputs);
    return planned.variant(kHopper).estimate_us(planned.call(), kHopper).value();
  };
  const TensorView x = bf16({4096, 2048}), weight = bf16({7168, 2048}), bias = bf16({7168});
  EXPECT_GT(estimate_us({x, weight, bias}), estimate_us({x, weight}));
}

bool has(const std::string& config, const std::string& part) {
  return config.find(part) != std::string::npos;
}

/// Measured: docs/performance.md, "Large products".
TEST(MatmulSm90Call, LargeProductsTakeLargeTiles) {
  for (const auto& [m, k, n] :
       {std::tuple{8192, 8192, 8192}, {4096, 5120, 32000}, {2048, 4096, 128256}, {16384, 4096, 14336}}) {
    const std::string config = default_of("matmul", {bf16({m, k}), bf16({k, n})});
    EXPECT_TRUE(has(config, "BLOCK_M=128 BLOCK_N=256") && has(config, "TILE_EACH=0")) << config;
  }
}

/// 8-bit operands across k: tiles whose boxes have rows of 128 bytes.
TEST(MatmulSm90Call, ShortRowsCountInTheChoiceOfTiles) {
  const TensorView weight = shaped(DType::fp8e4m3, {4096, 2048});
  TensorView along_k = weight;
  along_k.strides = {1, 4096};
  const TensorView x = shaped(DType::fp8e4m3, {16, 4096});
  EXPECT_TRUE(has(default_of("matmul", {x, weight}), "BLOCK_M=128"));
  EXPECT_TRUE(has(default_of("matmul", {x, along_k}), "BLOCK_M=64"));
}

}  // namespace
}  // namespace kiln::test
