// What a call would run, without running it.

#include "registry/inspection/inspection.hpp"

#include "compiler/compilers.hpp"
#include "compiler/host_cpu.hpp"
#include "registry/plan/registry.hpp"
#include "tests/support/error_message.hpp"
#include "tests/support/matchers.hpp"

namespace kiln::test {
namespace {

TensorView f32(const Dims& shape) {
  return dense_view(reinterpret_cast<void*>(std::uintptr_t{1} << 20), DType::f32, shape);
}

InspectedCall inspect(std::string_view op, const std::vector<TensorView>& inputs, const Target& target,
                      const Config* config = nullptr) {
  const Call call = validated_call(Registry::process().get(op), inputs, {}, {.seen_on = Device{target.type, 0}});
  return inspect_call(call, target, config);
}

TEST(Inspection, SaysWhatACallWouldRunOnAnyTarget) {
  const std::vector<TensorView> inputs{f32({64, 32}), f32({64, 32})};
  const Target sm90 = parse_cuda_target("sm_90a");
  const InspectedCall call = inspect("add", inputs, sm90);
  EXPECT_EQ(call.variant, "contiguous");
  EXPECT_EQ(call.config_source, "default");
  ASSERT_EQ(call.kernels.size(), 1U);
  EXPECT_EQ(call.kernels[0].request.target, sm90);
  EXPECT_GE(call.kernels[0].geometry.grid[0], 1);
  EXPECT_EQ(call.cost.bytes, 3 * 4 * 64 * 32);

  Config config = call.config;
  config.set("BLOCK_SIZE", 256);
  const InspectedCall given = inspect("add", inputs, sm90, &config);
  EXPECT_EQ(given.config_source, "given");
  EXPECT_EQ(given.kernels[0].geometry.grid[0], 64 * 32 / 256);
}

TEST(Inspection, WrongCallsAreRefused) {
  const Target sm90 = parse_cuda_target("sm_90a");
  EXPECT_THAT(usage_message([&] { inspect("ad", {}, sm90); }), HasSubstr("'add'"));
  const std::vector<TensorView> unequal{f32({3}), f32({4})};
  EXPECT_THAT(usage_message([&] { inspect("add", unequal, sm90); }), Says("(3)", "(4)"));
}

TEST(Inspection, FormsBelongToTargets) {
  const Target sm90 = parse_cuda_target("sm_90a");
  const Target cpu{DeviceType::cpu, "znver5", ""};
  for (const char* form : {"source", "ptx", "sass", "resources"}) EXPECT_NO_THROW(check_kernel_form(form, sm90));
  for (const char* form : {"source", "llvm-ir", "asm"}) EXPECT_NO_THROW(check_kernel_form(form, cpu));
  EXPECT_THAT(usage_message([&] { check_kernel_form("ptx", cpu); }), Says("cpu:znver5", "asm"));
  EXPECT_THAT(usage_message([&] { check_kernel_form("asm", sm90); }), Says("sm_90a", "ptx"));
  EXPECT_THAT(usage_message([&] { check_kernel_form("poem", cpu); }), Says("poem", "llvm-ir"));
}

TEST(Inspection, TextsOfTheCpu) {
  if (const std::string problem = compiler_problem(DeviceType::cpu); !problem.empty()) GTEST_SKIP() << problem;
  const std::vector<TensorView> inputs{f32({64}), f32({64})};
  const CompileRequest request = inspect("add", inputs, host_cpu_target()).kernels.at(0).request;
  EXPECT_THAT(kernel_text(request, "source"), Says("kiln_entry", "KILN_KERNEL"));
  EXPECT_THAT(kernel_text(request, "llvm-ir"), HasSubstr("define"));
  EXPECT_THAT(kernel_text(request, "asm"), HasSubstr("kiln_entry:"));
}

}  // namespace
}  // namespace kiln::test
