// Compiles rope's default configs for GPUs, with no GPU at hand: nothing spills, and where numbers of a head lie side
// by side they move 16 bytes at a time, neighbours as pairs without a way through shared memory.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "registry/plan/registry.hpp"
#include "tests/support/kernel_code.hpp"
#include "tests/support/launched_kernel.hpp"

namespace kiln::test {
namespace {

class RopeNvrtc : public ::testing::TestWithParam<std::string> {};

TEST_P(RopeNvrtc, DefaultsDoNotSpillAndMove16Bytes) {
  if (const std::string problem = nvrtc_problem(); !problem.empty()) GTEST_SKIP() << problem;
  const OpSpec& spec = Registry::process().get("rope");
  const TensorMeta none{DType::f32, {0}, true}, positions{DType::i64, {2048}};
  const auto x = [](DType dtype, std::int64_t dim) { return TensorMeta{dtype, {2048, 32, dim}}; };
  const TensorMeta table{DType::f32, {4096, 64}};
  const Attributes interleaved = {{"interleaved", true}};
  const Attributes llama3 = {{"scaling", std::string("llama3")}, {"factor", 8.0}};
  const Example examples[] = {
      {{x(DType::bf16, 128), table, table, positions}, {}},
      {{x(DType::f32, 128), table, table}, {}},
      {{x(DType::bf16, 128), table, table, positions}, interleaved},
      {{x(DType::bf16, 128), none, none, positions}, llama3},
      {{x(DType::f32, 256), none, none, positions}, interleaved},
      {{x(DType::f16, 192)}, {{"rotary_dim", std::int64_t{64}}}},
  };
  for (const Example& example : examples) {
    const std::vector<LaunchedKernel> kernels = kernels_of_all_variants(spec, example, parse_cuda_target(GetParam()));
    ASSERT_EQ(kernels.size(), 1U);
    const PtxasReport report = expect_no_spills(kernels[0].request);
    const std::string name = instance_name(kernels[0].request);
    // What is not aligned goes by way of functions, which stand elsewhere.
    const std::size_t entry = report.ptx.find(".entry ");
    const std::string body = report.ptx.substr(entry, report.ptx.find("\n}", entry) - entry);
    const auto has = [&](const char* instruction) { return body.find(instruction) != std::string::npos; };
    EXPECT_TRUE(has("ld.global.v4") || has("ld.global.nc.v4")) << name;
    EXPECT_TRUE(has("st.global.v4")) << name;
    const bool looks_up = example.inputs.size() == 4 && !example.inputs[1].absent;
    EXPECT_EQ(has("st.shared"), looks_up) << name;  // positions, for the rows of tables
  }
}

TEST_P(RopeNvrtc, AppendDoesNotSpillAndMoves16Bytes) {
  if (const std::string problem = nvrtc_problem(); !problem.empty()) GTEST_SKIP() << problem;
  const OpSpec& spec = Registry::process().get("rope_append");
  const TensorMeta q{DType::bf16, {64, 32, 128}}, rows{DType::bf16, {64, 8, 128}},
      cache{DType::bf16, {100, 16, 8, 128}}, slots{DType::i64, {64}}, table{DType::f32, {4096, 64}},
      none = TensorMeta::left_out();
  const TensorMeta narrow{DType::fp8e4m3, cache.shape}, scales{DType::f32, {8}};
  const Example examples[] = {{{q, rows, rows, cache, cache, slots, table, table, slots}, {}},
                              {{q, rows, rows, narrow, narrow, slots, table, table, slots, scales, scales}, {}},
                              {{q, rows, rows, cache, cache, slots, none, none, slots}, {{"interleaved", true}}}};
  for (const Example& example : examples) {
    const std::vector<LaunchedKernel> kernels = kernels_of_all_variants(spec, example, parse_cuda_target(GetParam()));
    ASSERT_EQ(kernels.size(), 1U);
    const PtxasReport report = expect_no_spills(kernels[0].request);
    const std::size_t entry = report.ptx.find(".entry ");
    const std::string body = report.ptx.substr(entry, report.ptx.find("\n}", entry) - entry);
    EXPECT_NE(body.find("st.global.v4"), std::string::npos) << instance_name(kernels[0].request);
    // Scales of heads come to their rows by way of shared memory.
    const bool has_scales = example.inputs.size() > 9;
    EXPECT_EQ(body.find("st.shared") != std::string::npos, has_scales) << instance_name(kernels[0].request);
  }
}

INSTANTIATE_TEST_SUITE_P(Gpus, RopeNvrtc, ::testing::Values("sm_80", "sm_89", "sm_90a", "sm_100a", "sm_120a"),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace kiln::test
