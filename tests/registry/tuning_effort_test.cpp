#include <gtest/gtest.h>

#include <array>

#include "registry/tuning/op_tuning.hpp"

// How a search goes about a call, by device, budget and processors.

namespace kiln::test {
namespace {

TEST(TuningEffort, ShortBudgetsOnTheCpuAreForTheLikeliest) {
  TuneOptions options;
  options.seed = 3;
  options.budget_s = 5;
  const Device cpu = Device::cpu(), gpu = Device::cuda(0);
  EXPECT_EQ(detail::strategy_of(options, cpu, 200).kind, StrategyKind::likeliest);
  EXPECT_EQ(detail::strategy_of(options, gpu, 200).kind, StrategyKind::automatic);
  EXPECT_TRUE(detail::strategy_of(options, gpu, 200).likeliest_first);
  EXPECT_EQ(detail::strategy_of(options, gpu, 200).seed, 3U);
  options.budget_s = 6;
  EXPECT_EQ(detail::strategy_of(options, cpu, 200).kind, StrategyKind::evolutionary);
  EXPECT_EQ(detail::strategy_of(options, cpu, 20).kind, StrategyKind::automatic);
  EXPECT_TRUE(detail::strategy_of(options, cpu, 20).likeliest_first);
  options.strategy = StrategyKind::exhaustive;
  EXPECT_EQ(detail::strategy_of(options, cpu, 200).kind, StrategyKind::exhaustive);
  EXPECT_FALSE(detail::strategy_of(options, cpu, 200).likeliest_first);
}

TEST(TuningEffort, AGpusHostKeepsAProcessorAndCompilesOnEightAtMost) {
  const Device cpu = Device::cpu(), gpu = Device::cuda(0);
  for (const auto& [processors, on_gpu, on_cpu] :
       {std::array{1, 1, 1}, {2, 1, 2}, {4, 3, 4}, {16, 8, 8}, {128, 8, 8}}) {
    EXPECT_EQ(detail::compile_threads(gpu, processors), on_gpu) << processors;
    EXPECT_EQ(detail::compile_threads(cpu, processors), on_cpu) << processors;
  }
}

}  // namespace
}  // namespace kiln::test
