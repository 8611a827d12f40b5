#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "compiler/compilers.hpp"
#include "compiler/host_cpu.hpp"
#include "core/errors.hpp"
#include "tests/support/compiler_test.hpp"
#include "tests/support/devices.hpp"
#include "tests/support/matchers.hpp"
#include "tests/tl/text_kernel.hpp"

namespace kiln::test {
namespace {

// The line numbers are in the tests.
constexpr const char* kText = R"(#include <kiln/tl.hpp>
namespace debugging {
/// Says that program number `bad` does not exist.
template <typename T>
KILN_KERNEL void number_kernel(T* out, int64_t bad) {
  tl::store(out + 2 * tl::program_id(0), 1);
  tl::device_assert(tl::program_id(0) != bad, "the program is good");
  tl::store(out + (2 * tl::program_id(0) + 1), 1);
}
template <int BLOCK_SIZE>
KILN_KERNEL void values_kernel(int32_t* out, int64_t bad) {
  const auto places = tl::program_id(0) * BLOCK_SIZE + tl::arange<BLOCK_SIZE>();
  tl::device_assert(places != bad, "no element is bad");
  tl::device_assert(places <= 1000000, "the tile is near");
  tl::store(out + places, tl::cast<int32_t>(places * 3));
}
template <typename T>
KILN_KERNEL void print_kernel(const T* x, int64_t n) {
  const auto row = tl::load(x + tl::arange<4>());
  tl::device_print("hello");
  tl::device_print("n = ", n, tl::cast<tl::uint8_t>(tl::program_id(0) + 200));
  tl::device_print("x: ", row);
  tl::device_print("half: ", tl::cast<tl::float16>(0.5f));
  tl::device_print("mask ", tl::expand_dims<1>(tl::arange<2>()) < tl::program_id(0) + 1);
}
}
)";

TextKernel kernel(const std::string& name, bool debug, std::vector<TemplateArgument> arguments = {}) {
  return {"tests/tl/debugging.hpp", kText, "debugging::" + name, std::move(arguments), 4, debug};
}

Tensor zeros(std::int64_t n, DType dtype = DType::i32) {
  Tensor tensor = empty({n}, dtype, Device::cpu());
  std::memset(tensor.data(), 0, static_cast<std::size_t>(n * itemsize_bytes(dtype)));
  return tensor;
}

/// What the launch says, or nothing.
std::string error_of(const TextKernel& run, std::vector<Tensor>& tensors, std::int64_t programs, std::int64_t bad) {
  try {
    run.run(Device::cpu(), {programs, 1, 1}, tensors, {bad});
  } catch (const DeviceError& error) {
    return error.what();
  }
  return {};
}

using CpuAssertion = CompilerTest<DeviceType::cpu>;

TEST_F(CpuAssertion, StopsTheProgramAndFailsTheLaunch) {
  std::vector<Tensor> tensors{zeros(20)};
  EXPECT_THAT(error_of(kernel("number_kernel", true, {DType::i32}), tensors, 10, 7),
              Says("number_kernel", "'the program is good'", "tests/tl/debugging.hpp:7", "program (7, 0, 0)"));
  EXPECT_EQ(tensors[0].data_as<std::int32_t>()[14], 0) << "a launch that fails gives no results back";
}

TEST_F(CpuAssertion, CodeBehindItDoesNotRun) {
  const auto loaded = load_kernel(
      compiler_for(DeviceType::cpu).compile(kernel("number_kernel", true, {DType::i32}).request(host_cpu_target())),
      Device::cpu());
  std::int32_t out[4] = {};
  void* pointer = out;
  std::int64_t bad = 1;
  void* parameters[] = {&pointer, &bad};
  EXPECT_THROW(loaded->launch({{2, 1, 1}, 4, 0}, parameters, Stream::default_of(Device::cpu())), DeviceError);
  EXPECT_EQ(out[2], 1);
  EXPECT_EQ(out[3], 0);
  bad = -1;  // and the kernel goes on serving
  loaded->launch({{2, 1, 1}, 4, 0}, parameters, Stream::default_of(Device::cpu()));
  EXPECT_EQ(out[3], 1);
}

TEST_F(CpuAssertion, TilesAndMasks) {
  const auto run = kernel("values_kernel", true, {std::int64_t{64}});
  std::vector<Tensor> tensors{zeros(640)};
  EXPECT_EQ(error_of(run, tensors, 10, -1), "");
  EXPECT_EQ(tensors[0].data_as<std::int32_t>()[639], 3 * 639);
  EXPECT_THAT(error_of(run, tensors, 10, 130), Says("'no element is bad'", ":13", "program (2, 0, 0)"));
  std::vector<Tensor> many{zeros(1000064)};
  EXPECT_THAT(error_of(run, many, 1000064 / 64, -1), Says("'the tile is near'", ":14", "program (15625, 0, 0)"));
}

TEST_F(CpuAssertion, InactiveWithoutDebug) {
  std::vector<Tensor> tensors{zeros(640)};
  EXPECT_EQ(error_of(kernel("values_kernel", false, {std::int64_t{64}}), tensors, 10, 130), "");
  const CompileRequest silent = kernel("number_kernel", false, {DType::i32}).request(host_cpu_target());
  const std::string code = compiler_for(DeviceType::cpu).emit(silent, EmitKind::llvm_ir);
  EXPECT_THAT(code, Not(HasSubstr("assertion")));
  EXPECT_NE(content_key(silent, "c"),
            content_key(kernel("number_kernel", true, {DType::i32}).request(host_cpu_target()), "c"));
}

TEST_F(CpuAssertion, EachThreadGetsItsOwn) {
  std::vector<std::thread> threads;
  std::vector<std::string> errors(4);
  for (std::size_t t = 0; t < errors.size(); ++t)
    threads.emplace_back([&errors, t] {
      const auto bad = static_cast<std::int64_t>(t) * 5000 - 5000;  // the first thread's kernel does not fail
      std::vector<Tensor> tensors{zeros(40000)};
      errors[t] = error_of(kernel("number_kernel", true, {DType::i32}), tensors, 20000, bad);
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(errors[0], "");
  for (std::size_t t = 1; t < errors.size(); ++t)
    EXPECT_THAT(errors[t], HasSubstr("program (" + std::to_string(t * 5000 - 5000) + ", 0, 0)"));
}

TEST(DebugVariable, DecidesTheDefault) {
  const char* const before = std::getenv("KILN_DEBUG");
  const std::string kept = before != nullptr ? before : "";
  setenv("KILN_DEBUG", "1", 1);
  EXPECT_TRUE(CompileRequest().debug);
  setenv("KILN_DEBUG", "off", 1);
  EXPECT_FALSE(CompileRequest().debug);
  setenv("KILN_DEBUG", "perhaps", 1);
  EXPECT_THROW(CompileRequest(), UsageError);
  before != nullptr ? setenv("KILN_DEBUG", kept.c_str(), 1) : unsetenv("KILN_DEBUG");
}

class Printing : public ::testing::TestWithParam<Device> {};

TEST_P(Printing, OneLineForEveryNumberAndElement) {
  std::vector<Tensor> tensors{zeros(4, DType::f32)};
  for (int i = 0; i < 4; ++i) tensors[0].data_as<float>()[i] = 0.5f * static_cast<float>(i) - 0.25f;
  ::testing::internal::CaptureStdout();
  kernel("print_kernel", false, {DType::f32}).run(GetParam(), {1, 1, 1}, tensors, {-7});
  std::fflush(stdout);
  const std::string printed = ::testing::internal::GetCapturedStdout();
  std::vector<std::string> lines;
  for (std::size_t start = 0; start < printed.size();) {
    const std::size_t end = printed.find('\n', start);
    lines.push_back(printed.substr(start, end - start));
    start = end == std::string::npos ? end : end + 1;
  }
  EXPECT_THAT(lines, ::testing::UnorderedElementsAre(
                         "pid (0, 0, 0) hello", "pid (0, 0, 0) n = -7", "pid (0, 0, 0) n = 200",
                         "pid (0, 0, 0) idx (0) x: -0.25", "pid (0, 0, 0) idx (1) x: 0.25",
                         "pid (0, 0, 0) idx (2) x: 0.75", "pid (0, 0, 0) idx (3) x: 1.25", "pid (0, 0, 0) half: 0.5",
                         "pid (0, 0, 0) idx (0, 0) mask 1", "pid (0, 0, 0) idx (1, 0) mask 0"))
      << printed;
}

INSTANTIATE_TEST_SUITE_P(Devices, Printing, ::testing::ValuesIn(devices_with_compilers()),
                         [](const auto& test) { return test.param.is_cuda() ? "cuda" : "cpu"; });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Printing);

TEST(CudaAssertion, CompilesWithAndWithoutDebug) {
  if (const std::string problem = compiler_problem(DeviceType::cuda); !problem.empty()) GTEST_SKIP() << problem;
  Compiler& compiler = compiler_for(DeviceType::cuda);
  for (const bool debug : {false, true}) {
    const TextKernel run = kernel("values_kernel", debug, {std::int64_t{64}});
    const std::string ptx = compiler.emit(run.request(parse_cuda_target("sm_90a")), EmitKind::ptx);
    EXPECT_EQ(ptx.find("__assertfail") != std::string::npos, debug);
  }
  EXPECT_THAT(
      compiler.emit(kernel("print_kernel", false, {DType::f32}).request(parse_cuda_target("sm_90a")), EmitKind::ptx),
      HasSubstr("vprintf"));
}

// In a process of its own: a failed assertion costs it its CUDA context.
TEST(CudaAssertionDeathTest, ReachesTheCaller) {
  if (device_count(DeviceType::cuda) == 0) GTEST_SKIP() << device_problem(DeviceType::cuda);
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        std::vector<Tensor> tensors{zeros(640)};
        try {
          kernel("values_kernel", true, {std::int64_t{64}}).run(Device::cuda(), {10, 1, 1}, tensors, {130});
        } catch (const DeviceError& error) {
          std::fprintf(stderr, "caught: %s\n", error.what());
          std::_Exit(3);
        }
        std::_Exit(4);
      },
      ::testing::ExitedWithCode(3), "no element is bad(.|\n)*caught: .*assert");
}

}  // namespace
}  // namespace kiln::test
