#ifdef KILN_HAS_CPU
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "compiler/compiler.hpp"
#include "compiler/stub.hpp"
#include "core/errors.hpp"

namespace kiln {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

/// The part of the tile language that the stub relies on, small enough that what a test sees comes from the test.
constexpr const char* kTinyTl = R"(#pragma once
namespace kiln::tl {
using int64_t = long long;
namespace cpu {
static int64_t kiln_program[6];
template <auto kKernel>
inline void run_programs(void* const* parameters, const int64_t* grid, int64_t begin, int64_t end) {
  for (int64_t program = begin; program < end; ++program) {
    kiln_program[0] = program % grid[0];
    kKernel(*static_cast<float**>(parameters[0]));
  }
}
}
inline int64_t program_id(int axis) { return cpu::kiln_program[axis]; }
}
)";

CompileRequest tiny(const std::string& kernel_text) {
  CompileRequest request;
  request.op = "tiny";
  request.configuration = "N=64";
  request.source = {"ops/tiny/kernel.hpp", "#include \"tiny_tl.hpp\"\n" + kernel_text, {{"tiny_tl.hpp", kTinyTl, {}}}};
  request.kernel = "tiny_kernel";
  request.template_arguments = {std::int64_t{64}};
  request.target = host_cpu_target();
  return request;
}

constexpr const char* kDouble = R"(template <int N> void tiny_kernel(float* x) {
  for (int i = 0; i < N; ++i) x[kiln::tl::program_id(0) * N + i] *= 2;
}
)";

Compiler& compiler() {
  return compiler_for(DeviceType::cpu);
}

/// The log of a compile that must fail, with nothing said on the terminal.
std::string failure(const CompileRequest& request) {
  testing::internal::CaptureStderr();
  testing::internal::CaptureStdout();
  std::string log;
  try {
    compiler().compile(request);
    ADD_FAILURE() << "it compiled";
  } catch (const CompileError& error) {
    EXPECT_EQ(error.op(), request.op);
    EXPECT_EQ(error.configuration(), request.configuration);
    log = error.log();
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "");
  return log;
}

TEST(LlvmCompiler, MakesAnObject) {
  const Artifact artifact = compiler().compile(tiny(kDouble));
  EXPECT_EQ(artifact.kind, ArtifactKind::object);
  EXPECT_EQ(artifact.entry, kCpuEntry);
  EXPECT_EQ(artifact.name, "tiny_kernel<64>");
  EXPECT_EQ(artifact.target, host_cpu_target());
  EXPECT_GT(artifact.compile_time_us, 0);
  ASSERT_GT(artifact.code.size(), 64U);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(artifact.code.data()), 4),
            "\x7f"
            "ELF");
}

TEST(LlvmCompiler, CompilesTheTileLanguage) {
  CompileRequest request;
  request.op = "copy";
  request.source = {"copy.hpp",
                    R"(#include <kiln/tl.hpp>
template <typename T, int BLOCK_SIZE>
KILN_KERNEL void copy_kernel(const T* x, T* out, tl::int64_t n) {
  auto offsets = tl::program_id(0) * BLOCK_SIZE + tl::arange<BLOCK_SIZE>();
  auto mask = offsets < n;
  tl::store(out + offsets, tl::load(x + offsets, mask), mask);
}
)",
                    {}};
  request.kernel = "copy_kernel";
  request.template_arguments = {DType::f32, std::int64_t{64}};
  request.target = host_cpu_target();
  EXPECT_GT(compiler().compile(request).code.size(), 64U);
}

TEST(LlvmCompiler, TheSameRequestGivesTheSameBytesFromEveryThread) {
  const CompileRequest request = tiny(kDouble);
  const std::vector<std::byte> expected = compiler().compile(request).code;
  std::atomic<int> same{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&] { same += compiler().compile(request).code == expected ? 1 : 0; });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(same, 8);
}

TEST(LlvmCompiler, TheProgramIdLivesInTheEntry) {
  const std::string ir = compiler().emit(tiny(kDouble), EmitKind::llvm_ir);
  EXPECT_THAT(ir, HasSubstr(" @kiln_entry("));
  EXPECT_THAT(ir, Not(HasSubstr("@_ZN4kiln2tl3cpu")));
  EXPECT_THAT(ir, Not(HasSubstr("alloca")));
}

TEST(LlvmCompiler, EmitsAssemblyForTheTargetsFeaturesOnly) {
  CompileRequest request = tiny(kDouble);
  request.target = {DeviceType::cpu, "x86-64", ""};
  const std::string plain = compiler().emit(request, EmitKind::assembly);
  EXPECT_THAT(plain, HasSubstr("xmm"));
  EXPECT_THAT(plain, Not(HasSubstr("ymm")));
  request.target.features = "+avx,+avx2";
  EXPECT_THAT(compiler().emit(request, EmitKind::assembly), HasSubstr("ymm"));
  request.target.features = "+avx,+avx2,+avx512f,+avx512vl,+avx512bw,+avx512dq";
  EXPECT_THAT(compiler().emit(request, EmitKind::assembly), HasSubstr("zmm"));
  request.target.arch = "no-such-cpu";
  EXPECT_THAT(compiler().emit(request, EmitKind::assembly), HasSubstr("kiln_entry"));
  EXPECT_THROW(compiler().emit(request, EmitKind::ptx), UsageError);
}

TEST(LlvmCompiler, MathFunctionsBecomeVectorCalls) {
  CompileRequest request = tiny(R"(template <int N> void tiny_kernel(float* x) {
  for (int i = 0; i < N; ++i) x[i] = __builtin_expf(x[i]);
  for (int i = 0; i < N; ++i) x[i] = __builtin_erff(x[i]);
  for (int i = 0; i < N; ++i) x[i] = __builtin_powf(x[i], 1.5f);
}
)");
  request.target = {DeviceType::cpu, "x86-64", "+avx,+avx2"};
  const std::string assembly = compiler().emit(request, EmitKind::assembly);
  EXPECT_THAT(assembly, HasSubstr("_ZGVdN8v_expf"));
  EXPECT_THAT(assembly, HasSubstr("_ZGVdN8v_erff"));
  EXPECT_THAT(assembly, HasSubstr("_ZGVdN8vv_powf"));
}

TEST(LlvmCompiler, SyntaxErrorsComeWithTheirSourceLine) {
  const std::string log =
      failure(tiny("template <int N> void tiny_kernel(float* x) {\n  x[0] = undeclared_name;\n}\n"));
  EXPECT_THAT(log, HasSubstr("ops/tiny/kernel.hpp:3:10: error: use of undeclared identifier 'undeclared_name'"));
  EXPECT_THAT(log, HasSubstr("x[0] = undeclared_name;"));
  EXPECT_THAT(log, HasSubstr("         ^"));
  EXPECT_THAT(log, Not(HasSubstr("./ops")));
}

TEST(LlvmCompiler, FailedAssertionsAndInstantiationsSayWhere) {
  const std::string log = failure(tiny(
      "template <int N> void tiny_kernel(float* x) {\n  static_assert(N == 32, \"N must be 32\");\n  x[0] = N;\n}\n"));
  EXPECT_THAT(log, HasSubstr("ops/tiny/kernel.hpp:3:17: error: static assertion failed"));
  EXPECT_THAT(log, HasSubstr("N must be 32"));
  EXPECT_THAT(log, HasSubstr("requested here"));
}

TEST(LlvmCompiler, NoFileOfTheMachineIsVisible) {
  EXPECT_THAT(failure(tiny("#include <vector>\n" + std::string(kDouble))), HasSubstr("'vector' file not found"));
  EXPECT_THAT(failure(tiny("#include \"/etc/passwd\"\n" + std::string(kDouble))), HasSubstr("file not found"));
  EXPECT_THAT(failure(tiny("#include <stdint.h>\n" + std::string(kDouble))), HasSubstr("file not found"));
}

TEST(LlvmCompiler, AnUnknownKernelOrWrongArgumentsFail) {
  CompileRequest request = tiny(kDouble);
  request.kernel = "other_kernel";
  EXPECT_THAT(failure(request), HasSubstr("other_kernel"));
  request = tiny(kDouble);
  request.template_arguments = {DType::f32};
  EXPECT_THAT(failure(request), HasSubstr("error:"));
}

TEST(LlvmCompiler, UndefinedFunctionsAreFoundBeforeLinking) {
  const std::string log = failure(tiny(R"(namespace far { float away(float); }
template <int N> void tiny_kernel(float* x) { x[0] = far::away(x[0]); }
)"));
  EXPECT_THAT(log, HasSubstr("undefined function 'far::away(float)'"));
}

TEST(LlvmCompiler, AFunctionThatCannotBeInlinedMayNotAskForTheProgramId) {
  const std::string log = failure(tiny(R"(__attribute__((noinline)) float f() { return kiln::tl::program_id(0); }
template <int N> void tiny_kernel(float* x) { x[0] = f(); }
)"));
  EXPECT_THAT(log, HasSubstr("program id"));
  EXPECT_THAT(log, HasSubstr("f()"));
}

// The interrupted compile leaks, as its handler says; a leak checker is right to say so too.
#ifndef __SANITIZE_ADDRESS__
TEST(LlvmCompiler, WhatMakesLlvmGiveUpIsAnErrorToo) {
  const std::string log =
      failure(tiny("template <int N> void tiny_kernel(float* x) { asm volatile(\"nonsense %0\" :: \"r\"(x)); }\n"));
  EXPECT_THAT(log, HasSubstr("error:"));
  // The process is sound afterwards.
  EXPECT_GT(compiler().compile(tiny(kDouble)).code.size(), 64U);
}
#endif

TEST(LlvmCompiler, EndlessTemplatesEndInAnError) {
  const std::string log =
      failure(tiny(R"(template <int N> struct Deep { static constexpr int value = Deep<N + 1>::value; };
template <int N> void tiny_kernel(float* x) { x[0] = Deep<N>::value; }
)"));
  EXPECT_THAT(log, HasSubstr("recursive template instantiation exceeded"));
}

TEST(LlvmCompiler, SourcesMayLieAnywhere) {
  CompileRequest request = tiny(kDouble);
  request.source.path = "/home/someone/my kernels/kernel.hpp";
  EXPECT_GT(compiler().compile(request).code.size(), 64U);
  request.source.text += "error here\n";
  EXPECT_THAT(failure(request), HasSubstr("/home/someone/my kernels/kernel.hpp:5:1: error:"));
  request = tiny(kDouble);
  request.source.path = "kernel.hpp";
  EXPECT_GT(compiler().compile(request).code.size(), 64U);
}

TEST(LlvmCompiler, IdentityIsKnownAndStable) {
  EXPECT_THAT(std::string(compiler().identity()), HasSubstr("clang 19"));
  EXPECT_EQ(compiler_problem(DeviceType::cpu), "");
}

TEST(HostCpu, IsTheSameEveryTimeAndSorted) {
  const Target& target = host_cpu_target();
  EXPECT_EQ(target.type, DeviceType::cpu);
  EXPECT_FALSE(target.arch.empty());
  EXPECT_THAT(target.features, HasSubstr("+sse3"));
  EXPECT_EQ(&host_cpu_target(), &target);
}

}  // namespace
}  // namespace kiln
#endif
