#include <pthread.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <numeric>
#include <thread>
#include <vector>

#include "compiler/compilers.hpp"
#include "compiler/host_cpu.hpp"
#include "core/errors.hpp"
#include "runtime/backend.hpp"
#include "runtime/device_info.hpp"
#include "runtime/kernel.hpp"
#include "tests/support/error_message.hpp"
#include "tests/support/matchers.hpp"

namespace kiln::test {
namespace {

/// The part of the tile language that the stub relies on; the kernel takes the program's three ids, the grid, two
/// pointers and a number.
constexpr const char* kTinyTl = R"(#pragma once
namespace kiln::tl {
using int64_t = long long;
namespace cpu {
static int64_t kiln_program[6] __asm__("kiln_program");
template <auto kKernel>
inline void run_programs(void* const* parameters, const int64_t* grid, int64_t begin, int64_t end) {
  for (int axis = 0; axis < 3; ++axis) kiln_program[3 + axis] = grid[axis];
  for (int64_t program = begin; program < end; ++program) {
    kiln_program[0] = program % grid[0];
    kiln_program[1] = program / grid[0] % grid[1];
    kiln_program[2] = program / grid[0] / grid[1];
    kKernel(*static_cast<void**>(parameters[0]), *static_cast<void**>(parameters[1]), *static_cast<int64_t*>(parameters[2]));
  }
}
}
inline int64_t program_id(int axis) { return cpu::kiln_program[axis]; }
inline int64_t num_programs(int axis) { return cpu::kiln_program[3 + axis]; }
}
using namespace kiln::tl;
)";

CompileRequest request(const std::string& kernel_text) {
  CompileRequest request;
  request.op = "tiny";
  request.source = {"kernel.hpp",
                    "#include \"tiny_tl.hpp\"\ntemplate <int N> void tiny_kernel(void* in, void* out, int64_t n) {\n" +
                        kernel_text + "}\n",
                    {{"tiny_tl.hpp", kTinyTl, {}}}};
  request.kernel = "tiny_kernel";
  request.template_arguments = {std::int64_t{1}};
  request.target = host_cpu_target();
  return request;
}

std::shared_ptr<const Kernel> load_on_cpu(const Artifact& artifact) {
  return CpuBackend::load_kernel(artifact, Device::cpu());
}

Artifact compile(const std::string& kernel_text) {
  return compiler_for(DeviceType::cpu).compile(request(kernel_text));
}

void launch(const Kernel& kernel, std::array<std::int64_t, 3> grid, void* in, void* out, std::int64_t n) {
  LaunchGeometry geometry;
  geometry.grid = grid;
  void* parameters[] = {&in, &out, &n};
  kernel.launch(geometry, parameters, Stream::default_of(Device::cpu()));
}

constexpr const char* kCount =
    "  auto* counts = static_cast<int*>(out);\n"
    "  ++counts[(program_id(2) * num_programs(1) + program_id(1)) * num_programs(0) + program_id(0)];\n";

TEST(CpuKernel, RunsEveryProgramOnceWhateverTheGrid) {
  const auto kernel = load_on_cpu(compile(kCount));
  for (const std::array<std::int64_t, 3>& grid : {std::array<std::int64_t, 3>{1, 1, 1},
                                                  {2, 1, 1},
                                                  {17, 1, 1},
                                                  {18, 1, 1},
                                                  {3, 5, 7},
                                                  {1, 1, 9},
                                                  {1, 300, 2},
                                                  {100003, 1, 1},
                                                  {1000, 50, 20}}) {
    const auto programs = static_cast<std::size_t>(grid[0] * grid[1] * grid[2]);
    std::vector<int> counts(programs + 1, 0);
    launch(*kernel, grid, nullptr, counts.data(), 0);
    EXPECT_EQ(std::count(counts.begin(), counts.end() - 1, 1), static_cast<std::ptrdiff_t>(programs))
        << grid[0] << " x " << grid[1] << " x " << grid[2];
    EXPECT_EQ(counts.back(), 0);
  }
}

TEST(CpuKernel, SlowProgramsAreSpreadAndStillRunOnce) {
  const auto kernel =
      load_on_cpu(compile("  volatile int spin = 0;\n  while (spin < 200000) spin = spin + 1;\n  "
                          "++static_cast<int*>(out)[program_id(0)];\n"));
  for (const std::int64_t programs : {2, 3, 40}) {
    std::vector<int> counts(static_cast<std::size_t>(programs), 0);
    launch(*kernel, {programs, 1, 1}, nullptr, counts.data(), 0);
    EXPECT_EQ(std::accumulate(counts.begin(), counts.end(), 0), programs);
    EXPECT_THAT(counts, Each(1));
  }
}

TEST(CpuKernel, WhatTheLastLaunchTookChangesNothing) {
  const auto kernel =
      load_on_cpu(compile("  volatile int spin = 0;\n  while (spin < n) spin = spin + 1;\n  "
                          "++static_cast<int*>(out)[program_id(0)];\n"));
  for (const std::int64_t spins : {0, 200000, 200000, 0, 0, 2000, 200000, 0})
    for (const std::int64_t programs : {1, 2, 7, 100}) {
      std::vector<int> counts(static_cast<std::size_t>(programs), 0);
      launch(*kernel, {programs, 1, 1}, nullptr, counts.data(), spins);
      EXPECT_THAT(counts, Each(1)) << programs << " programs of " << spins;
    }
}

/// Whether an address is on the calling thread's stack.
bool is_on_this_stack(const void* address) {
  pthread_attr_t attributes;
  EXPECT_EQ(pthread_getattr_np(pthread_self(), &attributes), 0);
  void* lowest = nullptr;
  std::size_t size_bytes = 0;
  pthread_attr_getstack(&attributes, &lowest, &size_bytes);
  pthread_attr_destroy(&attributes);
  return address >= lowest && address < static_cast<std::byte*>(lowest) + size_bytes;
}

/// Each program says where its stack is, after `n` steps.
constexpr const char* kSayWhere =
    "  volatile int64_t spin = 0;\n  while (spin < n) spin = spin + 1;\n"
    "  static_cast<void**>(out)[program_id(0)] = const_cast<int64_t*>(&spin);\n";

std::ptrdiff_t programs_elsewhere(const Kernel& kernel, std::size_t programs, std::int64_t steps) {
  std::vector<void*> where(programs, nullptr);
  launch(kernel, {static_cast<std::int64_t>(programs), 1, 1}, nullptr, where.data(), steps);
  return std::count_if(where.begin(), where.end(), [](const void* address) { return !is_on_this_stack(address); });
}

TEST(CpuKernel, SmallLaunchesStayOnTheCallingThread) {
  const auto kernel = load_on_cpu(compile(kSayWhere));
  int elsewhere = 0;  // a launch may be interrupted, and then it looks long
  for (int round = 0; round < 100; ++round) {
    elsewhere += programs_elsewhere(*kernel, 2, 300) > 0;
    elsewhere += programs_elsewhere(*kernel, 20, 20) > 0;
    elsewhere += programs_elsewhere(*kernel, 1, 100'000) > 0;
    if (round % 10 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_LE(elsewhere, 30) << "of 300 launches";
}

TEST(CpuKernel, LongLaunchesAreSharedAsleepAndAwake) {
  if (device_info(Device::cpu()).processors < 2) GTEST_SKIP() << "one thread for kernels";
  const auto kernel = load_on_cpu(compile(kSayWhere));
  for (const int pause_ms : {0, 3}) {
    std::ptrdiff_t elsewhere = 0;
    // Beside busy processes callers do without workers for a while, again and again.
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (elsewhere == 0 && std::chrono::steady_clock::now() < end) {
      std::this_thread::sleep_for(std::chrono::milliseconds(pause_ms));
      elsewhere = programs_elsewhere(*kernel, 40, 100'000);
    }
    EXPECT_GT(elsewhere, 0) << "after a pause of " << pause_ms << " ms";
  }
}

class OverAlignedLocals : public testing::TestWithParam<int> {};

/// Early exits, loops and calls are what a prologue that probes the stack can be misplaced around.
TEST_P(OverAlignedLocals, HoldWhatIsStored) {
  const std::string local = "  alignas(" + std::to_string(GetParam()) + ") float t[64];\n";
  const std::string use =
      "  for (int i = 0; i < 64; ++i) t[i] = x[(i * 7 + (int)n) % 64];\n"
      "  is_aligned &= reinterpret_cast<unsigned long>(static_cast<float*>(t)) % sizeof(Aligned) == 0;\n"
      "  for (int i = 0; i < 64; ++i) y[i] = t[63 - i] + t[(int)x[i] % 64];\n";
  const std::string begin = "  struct alignas(" + std::to_string(GetParam()) +
                            ") Aligned { char c; };\n  auto* x = static_cast<const float*>(in);\n"
                            "  auto* y = static_cast<float*>(out);\n  bool is_aligned = true;\n";
  const std::string end = "  y[64] = is_aligned;\n";
  for (const std::string& text :
       {begin + local + use + end, begin + "  if (x[0] < 0) return;\n" + local + use + end,
        begin + "  if (n > 0) {\n" + local + use + "  }\n" + end,
        begin + "  for (int k = 0; k < n; ++k) {\n" + local + use + "  if (x[k] < 0) return;\n  }\n" + end,
        begin +
            "  if (n > 0) {\n  alignas(4096) double u[3] = {1, 2, 3};\n  asm volatile(\"\" ::\"r\"(u) : "
            "\"memory\");\n" +
            local + use + "  }\n" + end}) {
    const auto kernel = load_on_cpu(compile(text));
    std::vector<float> x(64), y(65, -1), expected(65);
    std::iota(x.begin(), x.end(), 0.0F);
    const auto t = [](int i) { return static_cast<float>((i * 7 + 5) % 64); };
    for (int i = 0; i < 64; ++i) expected[static_cast<std::size_t>(i)] = t(63 - i) + t(i);
    expected[64] = 1;
    launch(*kernel, {1, 1, 1}, x.data(), y.data(), 5);
    EXPECT_EQ(y, expected) << text;
  }
}

INSTANTIATE_TEST_SUITE_P(Bytes, OverAlignedLocals, testing::Values(16, 64, 2048, 4096, 8192, 65536, 1 << 20));

TEST(CpuKernel, EveryThreadHasStackForTheLargestFrame) {
  const auto kernel =
      load_on_cpu(compile("  auto* counts = static_cast<int*>(out);\n  volatile int t[520000];\n"
                          "  for (int i = 0; i < 520000; ++i) t[i] = i;\n  for (int i = 0; i < 520000; ++i) "
                          "counts[program_id(0)] += t[i] == i;\n"));
  std::vector<int> counts(200, 0);
  launch(*kernel, {200, 1, 1}, nullptr, counts.data(), 0);
  EXPECT_THAT(counts, Each(520000));
}

TEST(CpuKernel, AZeroAxisLaunchesNothing) {
  const auto kernel = load_on_cpu(compile(kCount));
  launch(*kernel, {0, 1, 1}, nullptr, nullptr, 0);
  launch(*kernel, {4, 0, 2}, nullptr, nullptr, 0);
  EXPECT_EQ(kernel->resources().registers, 0);
}

TEST(CpuKernel, OutlivesItsArtifactAndUnloads) {
  for (int round = 0; round < 200; ++round) {
    static const Artifact artifact = compile(kCount);
    auto copy = std::make_unique<Artifact>(artifact);
    const auto kernel = load_on_cpu(*copy);
    copy.reset();
    int count = 0;
    launch(*kernel, {1, 1, 1}, nullptr, &count, 0);
    ASSERT_EQ(count, 1);
  }
}

TEST(CpuKernel, ManyThreadsLaunchAtOnce) {
  const auto kernel = load_on_cpu(compile("  ++static_cast<int*>(out)[program_id(0)];\n"));
  std::vector<std::vector<int>> counts(16, std::vector<int>(50000, 0));
  std::vector<std::thread> threads;
  for (std::vector<int>& own : counts)
    threads.emplace_back([&kernel, &own] {
      for (int i = 0; i < 10; ++i) launch(*kernel, {50000, 1, 1}, nullptr, own.data(), 0);
    });
  for (std::thread& thread : threads) thread.join();
  for (const std::vector<int>& own : counts) EXPECT_THAT(own, Each(10));
}

TEST(CpuKernel, MathFunctionsResolve) {
  const auto kernel =
      load_on_cpu(compile("  auto* x = static_cast<const float*>(in);\n  auto* y = static_cast<float*>(out);\n"
                          "  for (int64_t i = 0; i < n; ++i) y[i] = __builtin_expf(x[i]);\n"
                          "  for (int64_t i = 0; i < n; ++i) y[i] += __builtin_erff(x[i]) + __builtin_tanhf(x[i]) "
                          "+ __builtin_fmodf(x[i], 2.0f);\n"));
  std::vector<float> x(1003), y(1003);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i) * 0.01f - 5.0f;
  launch(*kernel, {1, 1, 1}, x.data(), y.data(), 1003);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double v = x[i];
    const double expected = std::exp(v) + std::erf(v) + std::tanh(v) + std::fmod(v, 2.0);
    EXPECT_NEAR(y[i], expected, 2e-6 * (std::exp(v) + 4.0)) << "x = " << v;
  }
}

TEST(CpuKernel, HalfTypesWorkOnCpusWithoutThem) {
  CompileRequest plain = request(
      "  auto* x = static_cast<const float*>(in);\n"
      "  static_cast<float*>(out)[0] = static_cast<_Float16>(x[0]);\n"
      "  static_cast<float*>(out)[1] = static_cast<_Float16>(static_cast<double>(x[0]) + 1.0);\n"
      "  static_cast<float*>(out)[2] = static_cast<__bf16>(x[0]);\n"
      "  static_cast<float*>(out)[3] = static_cast<__bf16>(static_cast<double>(x[0]) + 1.0);\n");
  plain.target = {DeviceType::cpu, "x86-64", ""};
  const auto kernel = load_on_cpu(compiler_for(DeviceType::cpu).compile(plain));
  float x = 3.14159265f;
  float out[4] = {};
  launch(*kernel, {1, 1, 1}, &x, out, 1);
  EXPECT_EQ(out[0], 3.140625f);
  EXPECT_EQ(out[1], 4.140625f);
  EXPECT_EQ(out[2], 3.140625f);
  EXPECT_EQ(out[3], 4.15625f);
  x = std::nanf("");
  launch(*kernel, {1, 1, 1}, &x, out, 1);
  for (const float value : out) EXPECT_TRUE(std::isnan(value));
}

TEST(CpuKernel, RefusesWhatDoesNotRunHere) {
  const Artifact good = compile(kCount);
  Artifact cubin = good;
  cubin.kind = ArtifactKind::cubin;
  EXPECT_THROW(load_on_cpu(cubin), UsageError);
  Artifact elsewhere = good;
  elsewhere.target.features += ",+future-instructions";
  EXPECT_THAT(usage_message([&] { load_on_cpu(elsewhere); }), HasSubstr("+future-instructions"));
}

TEST(CpuKernel, DamagedObjectsAreErrors) {
  const Artifact good = compile(kCount);
  Artifact bad = good;
  bad.entry = "no_such_entry";
  EXPECT_THROW(load_on_cpu(bad), DeviceError);
  bad = good;
  bad.code.clear();
  EXPECT_THROW(load_on_cpu(bad), DeviceError);
  bad.code.assign(100, std::byte{0x5a});
  EXPECT_THROW(load_on_cpu(bad), DeviceError);
  for (const std::size_t length : {std::size_t{16}, std::size_t{63}, std::size_t{64}, good.code.size() / 2}) {
    bad.code.assign(good.code.begin(), good.code.begin() + static_cast<std::ptrdiff_t>(length));
    EXPECT_THROW(load_on_cpu(bad), DeviceError) << length << " bytes";
  }
}

TEST(CpuKernel, MissingSymbolsAreNamed) {
  // The compiler refuses calls to what the process lacks, so the name of one that it has is changed in the object.
  Artifact artifact = compile(
      "  static_cast<float*>(out)[0] = __builtin_fmodf(static_cast<float*>(in)[0], static_cast<float*>(in)[1]);\n");
  const std::string name("\0fmodf", 6);
  auto* begin = reinterpret_cast<char*>(artifact.code.data());
  char* found = std::search(begin, begin + artifact.code.size(), name.begin(), name.end());
  ASSERT_NE(found, begin + artifact.code.size());
  std::memcpy(found + 1, "xmodq", 5);
  EXPECT_THAT(error_message<DeviceError>([&] { load_on_cpu(artifact); }), HasSubstr("'xmodq'"));
}

}  // namespace
}  // namespace kiln::test
