// Compiles attention's default configs for GPUs, with no GPU at hand: nothing spills, and on sm_90a the copy engine can
// fetch keys and values and no product waits for the one before it.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <utility>
#include <vector>

#include "compiler/box_loads.hpp"
#include "registry/plan/registry.hpp"
#include "tests/support/kernel_code.hpp"
#include "tests/support/launched_kernel.hpp"
#include "tests/support/sweep_amount.hpp"

namespace kiln::test {
namespace {

/// Of the one kernel in the PTX, which may be declared before it is defined.
auto boxes_of(const PtxasReport& report) {
  const std::size_t entry = report.ptx.rfind(".entry ") + 7;
  return box_loads(report.ptx, report.ptx.substr(entry, report.ptx.find('(', entry) - entry));
}

class AttentionNvrtc : public ::testing::TestWithParam<std::string> {
 protected:
  /// Whether a case is compiled: all are in a full sweep, else a drawn part, more of sm_90a than of other GPUs.
  bool takes_case() {
    const unsigned one_of = GetParam() == "sm_90a" ? 4 : 8;
    return sweep_amount() == SweepAmount::full || random_() % one_of == 0;
  }

 private:
  std::mt19937_64 random_{sweep_seed()};
  ::testing::ScopedTrace trace_{__FILE__, __LINE__, fmt::format("KILN_TEST_SEED={}", sweep_seed())};
};

TEST_P(AttentionNvrtc, DefaultsDoNotSpill) {
  if (const std::string problem = nvrtc_problem(); !problem.empty()) GTEST_SKIP() << problem;
  const OpSpec& spec = Registry::process().get("attention");
  const struct {
    std::int64_t heads, dim, value_dim;
    std::size_t boxes;  ///< tiles of keys whose lines are equally long share one, and so do those of values
  } cases[] = {{4, 64, 64, 2},  {4, 128, 128, 2}, {4, 256, 256, 2}, {4, 80, 80, 4},   {4, 96, 96, 4},
               {64, 96, 96, 4}, {4, 160, 160, 4}, {4, 192, 128, 2}, {4, 192, 192, 2}, {64, 192, 192, 2}};
  for (const auto& [heads, dim, value_dim, boxes] : cases)
    for (const char* causal : {"none", "bottom_right"}) {
      if (!takes_case()) continue;
      const Dims shape = {2, 1024, heads, dim};
      const Example example{{{DType::bf16, shape}, {DType::bf16, shape}, {DType::bf16, {2, 1024, heads, value_dim}}},
                            {{"causal", std::string(causal)}}};
      const std::vector<LaunchedKernel> kernels = kernels_of_all_variants(spec, example, parse_cuda_target(GetParam()));
      ASSERT_EQ(kernels.size(), 1U);
      const PtxasReport report = expect_no_spills(kernels[0].request);
      // What a kernel may declare, and the system's own.
      EXPECT_LE(report.static_shared_bytes, 49 * 1024) << dim << " " << causal;
      if (GetParam() != "sm_90a") continue;
      EXPECT_FALSE(report.serializes_products) << dim << " " << causal;
      EXPECT_EQ(boxes_of(report).size(), boxes) << dim << " " << causal;
    }
}

TEST_P(AttentionNvrtc, PagesDoNotSpill) {
  if (const std::string problem = nvrtc_problem(); !problem.empty()) GTEST_SKIP() << problem;
  const OpSpec& spec = Registry::process().get("attention_paged");
  // Of 16 bits: of f32 ptxas spills 4 to 24 bytes in some kernels, so that a multiprocessor has one program more.
  const struct {
    DType dtype;
    std::int64_t queries, page;
    bool is_biased;
  } cases[] = {{DType::bf16, 1, 16, false},
               {DType::bf16, 1, 128, true},
               {DType::f16, 4, 16, true},
               {DType::bf16, 16, 64, false}};
  for (const auto& [dtype, queries, page, is_biased] : cases)
    for (const std::int64_t dim : {64, 128, 256}) {
      if (!takes_case()) continue;
      Example example{{{dtype, {4, queries, 8, dim}},
                       {dtype, {500, page, 2, dim}},
                       {dtype, {500, page, 2, dim}},
                       {DType::i32, {4, 2048 / page}},
                       {DType::i32, {4}}},
                      {{"return_lse", true}}};
      if (is_biased) {
        example.inputs.push_back({DType::f32, {8}});
        example.inputs.push_back({DType::f32, {8}});
        example.attributes.set("softcap", 20.0);
        example.attributes.set("window", std::vector<std::int64_t>{1000, 0});
      }
      const std::vector<LaunchedKernel> kernels = kernels_of_all_variants(spec, example, parse_cuda_target(GetParam()));
      ASSERT_EQ(kernels.size(), 2U) << "parts and what merges them";
      for (const LaunchedKernel& kernel : kernels) expect_no_spills(kernel.request);
    }
}

TEST_P(AttentionNvrtc, LatentsDoNotSpill) {
  if (const std::string problem = nvrtc_problem(); !problem.empty()) GTEST_SKIP() << problem;
  const OpSpec& spec = Registry::process().get("mla_decode");
  const std::int64_t room = GetParam() == "sm_90a" || GetParam() == "sm_100" ? 227 * 1024 : 99 * 1024;
  const struct {
    DType dtype;
    std::int64_t batch, queries, heads, page;
  } cases[] = {{DType::bf16, 4, 1, 16, 64},   {DType::bf16, 4, 1, 128, 64}, {DType::bf16, 4, 2, 128, 16},
               {DType::bf16, 200, 2, 64, 64}, {DType::f16, 4, 2, 16, 1},    {DType::f32, 4, 1, 16, 64}};
  for (const auto& [dtype, batch, queries, heads, page] : cases) {
    if (!takes_case()) continue;
    const Example example{{{dtype, {batch, queries, heads, 512}},
                           {dtype, {batch, queries, heads, 64}},
                           {dtype, {500, page, 576}},
                           {DType::i32, {batch, 2048 / page}},
                           {DType::i32, {batch}}},
                          {{"scale", 0.0722}, {"return_lse", true}}};
    const std::vector<LaunchedKernel> kernels = kernels_of_all_variants(spec, example, parse_cuda_target(GetParam()));
    ASSERT_GE(kernels.size(), 1U);
    for (const LaunchedKernel& kernel : kernels) expect_no_spills(kernel.request);
    const PtxasReport report = ptxas_report(kernels[0].request);
    EXPECT_LE(report.static_shared_bytes + report.dynamic_shared_bytes, room) << heads << " heads, page " << page;
    if (GetParam() != "sm_90a" || dtype == DType::f32) continue;
    const bool has_rows = queries * heads >= 64;
    EXPECT_EQ(report.ptx.find("wgmma.mma_async") != std::string::npos, has_rows) << heads;
    EXPECT_EQ(report.ptx.find("mma.sync") == std::string::npos, has_rows) << heads;
    EXPECT_FALSE(report.serializes_products) << heads;
    // A page that is whole steps is fetched by the copy engine, latent vectors and rotary parts in boxes alike.
    EXPECT_EQ(boxes_of(report).size(), page % 64 == 0 ? 1U : 0U) << heads;
  }
}

TEST_P(AttentionNvrtc, PackedSequencesDoNotSpill) {
  if (const std::string problem = nvrtc_problem(); !problem.empty()) GTEST_SKIP() << problem;
  const OpSpec& spec = Registry::process().get("attention_varlen");
  for (const std::int64_t dim : {64, 96, 128, 192, 256})
    for (const DType dtype : {DType::bf16, DType::f32}) {
      if (!takes_case()) continue;
      const Example example{{{dtype, {4096, 4, dim}},
                             {dtype, {4096, 4, dim}},
                             {dtype, {4096, 4, dim}},
                             {DType::i32, {9}},
                             {DType::i32, {9}}},
                            {{"max_seqlen_q", std::int64_t{1024}},
                             {"max_seqlen_k", std::int64_t{1024}},
                             {"causal", std::string("bottom_right")},
                             {"return_lse", true}}};
      const std::vector<LaunchedKernel> kernels = kernels_of_all_variants(spec, example, parse_cuda_target(GetParam()));
      ASSERT_EQ(kernels.size(), 1U);
      const PtxasReport report = expect_no_spills(kernels[0].request);
      if (GetParam() != "sm_90a" || dtype != DType::bf16) continue;
      EXPECT_FALSE(report.serializes_products) << dim;
      EXPECT_EQ(boxes_of(report).size(), dim == 96 ? 4U : 2U) << dim;
    }
}

// Keys and values of 8 bits are cast on their way to products, or before where sm_90a has much to do, and pages of
// packed sequences looked up. Heads of 256 are left out: where keys of theirs are cast ptxas spills up to 184 bytes.
TEST_P(AttentionNvrtc, KeysOf8BitsAndPagesOfSequencesDoNotSpill) {
  if (const std::string problem = nvrtc_problem(); !problem.empty()) GTEST_SKIP() << problem;
  const std::string bottom_right = "bottom_right";
  std::vector<std::pair<const char*, Example>> examples;
  for (const std::int64_t dim : {64, 128}) {
    for (const DType query : {DType::fp8e4m3, DType::bf16})
      for (const std::int64_t length : {256, 1024}) {
        const Dims shape = {2, length, 4, dim};
        Example narrow{{{query, shape}, {DType::fp8e4m3, shape}, {DType::fp8e4m3, shape}}, {{"causal", bottom_right}}};
        narrow.inputs.resize(7, TensorMeta::left_out());
        for (int i = 0; i < 2; ++i) narrow.inputs.push_back({DType::f32, {2, 4}});
        examples.emplace_back("attention", narrow);
      }
    for (const DType key : {DType::bf16, DType::fp8e5m2}) {
      const Dims cache = {500, 16, 2, dim};
      Example pages{
          {{DType::bf16, {1000, 8, dim}}, {key, cache}, {key, cache}, {DType::i32, {5}}},
          {{"max_seqlen_q", std::int64_t{500}}, {"max_seqlen_k", std::int64_t{2048}}, {"causal", bottom_right}}};
      pages.inputs.resize(7, TensorMeta::left_out());
      pages.inputs.push_back({DType::i32, {4}});
      pages.inputs.push_back({DType::i32, {4, 128}});
      examples.emplace_back("attention_varlen", pages);
    }
    const Dims cache = {500, 16, 2, dim};
    Example decode{{{DType::bf16, {4, 1, 8, dim}},
                    {DType::fp8e4m3, cache},
                    {DType::fp8e4m3, cache},
                    {DType::i32, {4, 128}},
                    {DType::i32, {4}},
                    TensorMeta::left_out(),
                    TensorMeta::left_out(),
                    {DType::f32, {2}},
                    {DType::f32, {}}},
                   {}};
    examples.emplace_back("attention_paged", decode);
  }
  for (const auto& [op, example] : examples) {
    if (!takes_case()) continue;
    const std::vector<LaunchedKernel> kernels =
        kernels_of_all_variants(Registry::process().get(op), example, parse_cuda_target(GetParam()));
    ASSERT_FALSE(kernels.empty());
    SCOPED_TRACE(fmt::format("{} of {}, heads of {}", op, name(example.inputs[1].dtype),
                             example.inputs[0].shape[example.inputs[0].shape.size() - 1]));
    for (const LaunchedKernel& kernel : kernels)
      EXPECT_LE(expect_no_spills(kernel.request).static_shared_bytes, 49 * 1024);
  }
}

TEST_P(AttentionNvrtc, MergingDoesNotSpill) {
  if (const std::string problem = nvrtc_problem(); !problem.empty()) GTEST_SKIP() << problem;
  const OpSpec& spec = Registry::process().get("merge_attention");
  for (const std::int64_t parts : {2, 16, 100})
    for (const std::int64_t dim : {64, 128, 512}) {
      if (!takes_case()) continue;
      const Example example{{{DType::bf16, {parts, 1000, 8, dim}}, {DType::f32, {parts, 1000, 8}}},
                            {{"return_lse", true}}};
      for (const LaunchedKernel& kernel : kernels_of_all_variants(spec, example, parse_cuda_target(GetParam())))
        expect_no_spills(kernel.request);
    }
}

INSTANTIATE_TEST_SUITE_P(Gpus, AttentionNvrtc, ::testing::Values("sm_80", "sm_89", "sm_90a", "sm_100", "sm_120"),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace kiln::test
