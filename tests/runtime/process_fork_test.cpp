#include "runtime/process_fork.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "compiler/compilers.hpp"
#include "compiler/host_cpu.hpp"
#include "core/errors.hpp"
#include "runtime/device_info.hpp"
#include "runtime/kernel.hpp"
#include "runtime/memory.hpp"
#include "tests/support/child_process.hpp"
#include "tests/support/error_message.hpp"

namespace kiln::test {
namespace {

/// A child that waits for what it does not have ends here.
constexpr unsigned kPatienceS = 120;

constexpr std::int64_t kPrograms = 400;

/// Program i writes i + `added`, slowly enough for a launch to be spread over threads.
std::shared_ptr<const Kernel> slow_kernel(int added) {
  CompileRequest request;
  request.op = "slow";
  request.source = {"slow.hpp",
                    "#include <kiln/tl.hpp>\n"
                    "namespace tl = kiln::tl;\n"
                    "template <int ADDED> KILN_KERNEL void slow(tl::int64_t* out) {\n"
                    "  volatile int spin = 0;\n"
                    "  while (spin < 100000) spin = spin + 1;\n"
                    "  auto offsets = tl::program_id(0) + tl::arange<1>();\n"
                    "  tl::store(out + offsets, tl::full<tl::int64_t, 1>(tl::program_id(0) + ADDED));\n"
                    "}\n",
                    {}};
  request.kernel = "slow";
  request.template_arguments = {std::int64_t{added}};
  request.target = host_cpu_target();
  return load_kernel(compiler_for(DeviceType::cpu).compile(request), Device::cpu());
}

bool runs_right(const Kernel& kernel, int added) {
  std::vector<std::int64_t> out(kPrograms, -1);
  std::int64_t* memory = out.data();
  void* parameters[] = {&memory};
  LaunchGeometry geometry;
  geometry.grid = {kPrograms, 1, 1};
  kernel.launch(geometry, parameters, Stream::default_of(Device::cpu()));
  for (std::int64_t i = 0; i < kPrograms; ++i)
    if (out[static_cast<std::size_t>(i)] != i + added) return false;
  return true;
}

TEST(ProcessFork, KernelsRunInTheChildOfAProcessThatUsedThreads) {
  if (const std::string problem = compiler_problem(DeviceType::cpu); !problem.empty()) GTEST_SKIP() << problem;
  const auto kernel = slow_kernel(3);
  ASSERT_TRUE(runs_right(*kernel, 3));
  EXPECT_FALSE(is_lost_in_fork(ForkLoss::workers));
  const auto body = [&] {
    ::alarm(kPatienceS);
    for (int round = 0; round < 3; ++round) REQUIRE_IN_CHILD(runs_right(*kernel, 3));
    // What the parent had not compiled is compiled here.
    REQUIRE_IN_CHILD(runs_right(*slow_kernel(7), 7));
    return 0;
  };
  EXPECT_EQ(ChildProcess(body).wait(), 0);
  EXPECT_EQ(ChildProcess([&] {
              if (const int code = body(); code != 0) return code;
              return ChildProcess(body).wait();
            }).wait(),
            0)
      << "a child's child";
  EXPECT_TRUE(runs_right(*kernel, 3)) << "the parent";
}

TEST(ProcessFork, AChildMayLeaveByExit) {
  if (const std::string problem = compiler_problem(DeviceType::cpu); !problem.empty()) GTEST_SKIP() << problem;
  const auto kernel = slow_kernel(3);
  ASSERT_TRUE(runs_right(*kernel, 3));
  const auto leave = [&]() -> int {
    ::alarm(kPatienceS);
    REQUIRE_IN_CHILD(runs_right(*kernel, 3));
    std::exit(0);  // Runs the destructors of what the parent made.
  };
  EXPECT_EQ(ChildProcess(leave).wait(), 0);
}

TEST(ProcessFork, OnlyWhatWasUsedIsLost) {
  EXPECT_FALSE(is_lost_in_fork(ForkLoss::cuda_driver));
  const bool uses_cuda = device_count(DeviceType::cuda) > 0;
  ChildProcess child([&] {
    REQUIRE_IN_CHILD(is_lost_in_fork(ForkLoss::cuda_driver) == uses_cuda);
    return 0;
  });
  EXPECT_EQ(child.wait(), 0);
  EXPECT_FALSE(is_lost_in_fork(ForkLoss::cuda_driver)) << "the parent loses nothing";
}

TEST(ProcessFork, CudaIsRefusedInTheChildOfAProcessThatUsedIt) {
  if (device_count(DeviceType::cuda) == 0) GTEST_SKIP() << "no CUDA device";
  const Device device = Device::cuda(0);
  Tensor before = empty({1000}, DType::f32, device);
  ChildProcess child([&] {
    ::alarm(kPatienceS);
    REQUIRE_IN_CHILD(device_count(DeviceType::cuda) == 0);
    REQUIRE_IN_CHILD(device_problem(DeviceType::cuda).find("spawn") != std::string::npos);
    const std::string refusal = error_message<DeviceError>([&] { empty({1000}, DType::f32, device); });
    REQUIRE_IN_CHILD(refusal.find("forked after CUDA was used") != std::string::npos);
    before = Tensor();  // The parent's memory: letting go of it here must neither fail nor free it.
    return 0;
  });
  EXPECT_EQ(child.wait(), 0);
  memset_bytes(before, 1, Stream::default_of(device));
  EXPECT_EQ(to_device(before, Device::cpu()).data_as<std::uint8_t>()[0], 1);
}

}  // namespace
}  // namespace kiln::test
