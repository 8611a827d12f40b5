#include <gtest/gtest.h>

#include <stdlib.h>
#include <array>

#include <chrono>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "compiler/compilers.hpp"
#include "core/errors.hpp"

#include "compiler/library_build_id.hpp"
#include "compiler/nvrtc_compiler.hpp"
#include "tests/support/error_message.hpp"
#include "tests/support/matchers.hpp"
#include "tests/support/nvrtc_fixture.hpp"

namespace kiln::test {
namespace {

constexpr const char* kScaleKernel = R"(#include "test/scale.hpp"

namespace test {
template <typename T, int BLOCK_SIZE>
__global__ void scale_kernel(const T* x, T* out, long long n, float factor) {
  const long long i = blockIdx.x * static_cast<long long>(BLOCK_SIZE) + threadIdx.x;
  if (i < n) out[i] = scaled(x[i], static_cast<T>(factor));
}
}  // namespace test
)";
constexpr const char* kScaleHeader = R"(#pragma once
namespace test {
template <typename T>
T scaled(T value, T factor) {
  return value * factor;
}
}  // namespace test
)";

CompileRequest scale_request(const std::string& arch) {
  CompileRequest request;
  request.op = "scale";
  request.configuration = "BLOCK_SIZE=128 num_warps=4";
  request.source = {"test/scale_kernel.hpp", kScaleKernel, {{"test/scale.hpp", kScaleHeader, {}}}};
  request.kernel = "test::scale_kernel";
  request.template_arguments = {DType::f32, std::int64_t{128}};
  request.target = {DeviceType::cuda, arch, {}};
  return request;
}

std::string text_of(const Artifact& artifact) {
  return std::string(reinterpret_cast<const char*>(artifact.code.data()), artifact.code.size());
}

TEST(NeedsPtx, ComparesMajorVersions) {
  EXPECT_FALSE(needs_ptx(13000, 13000));
  EXPECT_FALSE(needs_ptx(12040, 12090));
  EXPECT_FALSE(needs_ptx(13010, 12090));
  EXPECT_TRUE(needs_ptx(12090, 13000));
  // No driver: nothing will be loaded, so machine code is as good.
  EXPECT_FALSE(needs_ptx(0, 13000));
}

TEST(LibraryBuildId, TellsLibrariesApart) {
  const std::string libc = library_build_id(reinterpret_cast<const void*>(&::getenv));
  const std::string libstdcxx =
      library_build_id(reinterpret_cast<const void*>(static_cast<void* (*)(std::size_t)>(&::operator new)));
  EXPECT_FALSE(libc.empty());
  EXPECT_NE(libc, libstdcxx);
  EXPECT_EQ(libc, library_build_id(reinterpret_cast<const void*>(&::setenv)));
  const int local = 0;
  EXPECT_TRUE(library_build_id(&local).empty());
}

class NvrtcArchitecture : public NvrtcCompiler, public testing::WithParamInterface<const char*> {};

TEST_P(NvrtcArchitecture, CompilesToMachineCodeWithALoweredName) {
  const Artifact artifact = compiler_->compile(scale_request(GetParam()));
  EXPECT_EQ(artifact.kind, ArtifactKind::cubin);
  EXPECT_EQ(artifact.target.arch, GetParam());
  EXPECT_EQ(artifact.name, "test::scale_kernel<float, 128>");
  EXPECT_EQ(artifact.entry, "_ZN4test12scale_kernelIfLi128EEEvPKT_PS1_xf");
  EXPECT_GT(artifact.compile_time_us, 0);
  const std::string code = text_of(artifact);
  EXPECT_EQ(code.substr(0, 4),
            "\x7f"
            "ELF");
  EXPECT_NE(code.find(artifact.entry), std::string::npos);
  RecordProperty("compile_time_us", std::to_string(artifact.compile_time_us));
}

TEST_P(NvrtcArchitecture, ReportsWhatPtxasAllocated) {
  const PtxasReport report = ptxas_report(scale_request(GetParam()));
  EXPECT_GT(report.registers, 0);
  EXPECT_EQ(report.spill_store_bytes, 0);
  EXPECT_EQ(report.spill_load_bytes, 0);
  EXPECT_EQ(report.stack_bytes, 0);
}

INSTANTIATE_TEST_SUITE_P(Targets, NvrtcArchitecture, testing::Values("sm_80", "sm_90a", "sm_100a"),
                         [](const auto& instance) { return std::string(instance.param); });

CompileRequest tiny_request(const std::string& before, const std::string& body) {
  CompileRequest request = scale_request("sm_80");
  request.source = {
      "tiny.hpp", before + "\ntemplate <typename T, int N>\n__global__ void tiny(T* x) { " + body + " }\n", {}};
  request.kernel = "tiny";
  return request;
}

TEST_F(NvrtcCompiler, RefusesGlobalsThatNeedCodeOfTheirOwn) {
  const std::string f = "__device__ int f() { return *(volatile int*)8; }\n";
  for (const auto& [before, body] :
       std::vector<std::pair<std::string, std::string>>{{f + "int g = f();", "x[0] = g;"},
                                                        {f, "static int g = f(); x[0] = g;"},
                                                        {"struct S { int a; ~S() { a = 0; } }; S g{5};", "x[0] = g.a;"},
                                                        {"thread_local int g = 7;", "x[0] = g;"}})
    EXPECT_THROW(compiler_->compile(tiny_request(before, body)), CompileError) << before;
  EXPECT_NO_THROW(compiler_->compile(
      tiny_request("constexpr int t[] = {1, 2}; static const int u[] = {3};", "x[0] = t[1] + u[0];")));
}

TEST_F(NvrtcCompiler, DeepNestingIsAnErrorOrCompiles) {
  const auto minuses = [&](std::size_t count) {
    std::string body = "x[0] = ";
    for (std::size_t i = 0; i < count; ++i) body += "- ";
    return tiny_request("", body + "x[1];");
  };
  EXPECT_NO_THROW(compiler_->compile(minuses(9'000)));
  EXPECT_THROW(compiler_->compile(minuses(10'001)), CompileError);
  EXPECT_THROW(compiler_->compile(minuses(1'000'000)), CompileError);
}

TEST_F(NvrtcCompiler, LeavesACompileBehindAtTheDeadline) {
  const std::string tree =
      "template <int D, long long P> struct Tree { static constexpr int v = Tree<D - 1, 2 * P>::v + Tree<D - 1, 2 * P "
      "+ 1>::v; };\n"
      "template <long long P> struct Tree<0, P> { static constexpr int v = 1; };";
  ::setenv("KILN_COMPILE_TIMEOUT", "1", 1);
  const auto start = std::chrono::steady_clock::now();
  EXPECT_THROW(compiler_->compile(tiny_request(tree, "x[0] = Tree<15, 0>::v;")), CompileError);
  ::unsetenv("KILN_COMPILE_TIMEOUT");
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(3));
}

TEST_F(NvrtcCompiler, FindsHeadersBesideTheFileThatIncludesThem) {
  CompileRequest request = scale_request("sm_80");
  std::string kernel = kScaleKernel;
  kernel.replace(0, kernel.find('\n'), "#include \"parts/scale.hpp\"  // \"parts/scale.hpp\"");
  request.source = {"/home/me/kernel.hpp",
                    kernel,
                    {{"/home/me/parts/scale.hpp", "#pragma once\n# include \"deeper.hpp\"\n", {}},
                     {"/home/me/parts/deeper.hpp", kScaleHeader, {}}}};
  EXPECT_FALSE(compiler_for(DeviceType::cuda).compile(request).code.empty());
}

TEST_F(NvrtcCompiler, EmitsPtxForATargetThatAsksForIt) {
  CompileRequest request = scale_request("sm_90a");
  request.target.features = "ptx";
  const Artifact artifact = compiler_->compile(request);
  EXPECT_EQ(artifact.kind, ArtifactKind::ptx);
  const std::string code = text_of(artifact);
  EXPECT_NE(code.find(".target sm_90a"), std::string::npos);
  EXPECT_NE(code.find(".entry " + artifact.entry), std::string::npos);
  EXPECT_EQ(code.back(), '\0');
}

TEST_F(NvrtcCompiler, ShowsPtxAndRefusesFormsOfTheCpu) {
  const std::string ptx = compiler_->emit(scale_request("sm_80"), EmitKind::ptx);
  EXPECT_NE(ptx.find(".target sm_80"), std::string::npos);
  EXPECT_NE(ptx.back(), '\0');
  EXPECT_THROW(compiler_->emit(scale_request("sm_80"), EmitKind::llvm_ir), UsageError);
  EXPECT_THROW(compiler_->emit(scale_request("sm_80"), EmitKind::assembly), UsageError);
}

TEST_F(NvrtcCompiler, DefinesTheTargetMacros) {
  CompileRequest request = scale_request("sm_80");
  request.num_warps = 8;
  request.vector_width = 2;
  request.source.text = R"(
static_assert(KILN_TARGET_CUDA == 1 && KILN_NUM_WARPS == 8 && KILN_VECTOR_WIDTH == 2);
namespace test { template <typename T, int BLOCK_SIZE> __global__ void scale_kernel(T* out) { *out = T(BLOCK_SIZE); } }
)";
  EXPECT_EQ(compiler_->compile(request).kind, ArtifactKind::cubin);
  request.vector_width = 0;
  request.source.text = R"(
static_assert(KILN_VECTOR_WIDTH == 4);
namespace test { template <typename T, int BLOCK_SIZE> __global__ void scale_kernel(T* out) { *out = T(BLOCK_SIZE); } }
)";
  EXPECT_EQ(compiler_->compile(request).kind, ArtifactKind::cubin);
}

TEST_F(NvrtcCompiler, KnowsWhichKernelsTakeDynamicSharedMemoryAndHowMuchPipelinesNeed) {
  constexpr const char* kTile = R"(
#include <kiln/tl.hpp>
namespace test {
namespace tl = kiln::tl;
KILN_DEVICE auto rows() { return tl::expand_dims<1>(tl::arange<32>()); }
KILN_DEVICE auto columns() { return tl::expand_dims<0>(tl::arange<32>()); }
template <typename T, int BLOCK_SIZE>
KILN_KERNEL void scale_kernel(const T* x, T* out) {
  auto acc = tl::dot_accumulator<T, 32, 32>();
)";
  constexpr const char* kTileEnd = "  tl::store(out + (rows() * 32 + columns()), acc);\n}\n}\n";
  const auto plain = [](const std::string& before, const std::string& body) {
    return before + "namespace test { template <typename T, int BLOCK_SIZE> __global__ void scale_kernel(T* out) {" +
           body + "} }\n";
  };
  const std::string array = "extern __shared__ int dynamic[]; dynamic[threadIdx.x] = 1; __syncthreads();";
  struct Case {
    const char* name;
    std::string text;
    bool takes;
    std::int32_t bytes = 0;
  };
  const auto pipeline = [](int stages) {
    return "tl::pipeline<" + std::to_string(stages) +
           ">(tl::int64_t{4}, [&](tl::int64_t step) { const auto tile = x + step * 1024 + (rows() * 32 + columns()); "
           "return tl::Tuple{tl::deferred_load(tile), tl::deferred_load(tile)}; }, [&](const auto& a, const auto& b) { "
           "acc = tl::dot(a, b, acc); });\n";
  };
  constexpr std::int32_t kStageBytes = 2 * 32 * 32 * 4;
  const std::string large =
      "const auto b = tl::dot_operand([&] { return tl::deferred_load(x + (tl::expand_dims<1>("
      "tl::arange<32>()) * 512 + tl::expand_dims<0>(tl::arange<512>()))); });\n";
  const std::string use_large =
      "tl::store(out + (rows() * 512 + tl::expand_dims<0>(tl::arange<512>())), tl::dot(tl::load(x + (rows() * 32 + "
      "columns())), b));\n";
  constexpr std::int32_t kLargeBytes = 32 * 512 * 4;
  const std::string other_kernel =
      "KILN_KERNEL void other(const float* x, float* out) {\n"
      "  auto acc = tl::dot_accumulator<float, 32, 32>();\n" +
      pipeline(5) + kTileEnd;
  const Case cases[] = {
      {"none", plain("", "*out = 1;"), false},
      {"static", plain("", "__shared__ int fixed[32]; fixed[threadIdx.x] = 1; __syncthreads(); *out = fixed[0];"),
       false},
      {"extern", plain("", array + "*out = dynamic[0];"), true},
      {"in a function", plain("inline int f() { " + array + " return dynamic[31 - threadIdx.x]; }", "*out = f();"),
       true},
      {"in a function that nobody calls", plain("inline int f() { " + array + " return dynamic[0]; }", "*out = 1;"),
       false},
      {"tl::dot",
       std::string(kTile) +
           "acc = tl::dot(tl::load(x + (rows() * 32 + columns())), tl::load(x + (rows() * 32 + columns())), acc);\n" +
           kTileEnd,
       false},
      {"tl::pipeline", kTile + pipeline(2) + kTileEnd, true, 2 * kStageBytes},
      {"two pipelines", kTile + pipeline(3) + pipeline(2) + kTileEnd, true, 3 * kStageBytes},
      {"an operand of more than 48 KiB", kTile + large + use_large + kTileEnd, true, kLargeBytes},
      {"and a pipeline", kTile + large + use_large + pipeline(2) + kTileEnd, true, 2 * kStageBytes + kLargeBytes},
      {"two pipelines, the larger one last", kTile + pipeline(1) + pipeline(2) + kTileEnd, true, 2 * kStageBytes},
      {"a kernel of the file with a larger pipeline",
       kTile + pipeline(2) + kTileEnd + "namespace test {\n" + other_kernel, true, 2 * kStageBytes},
  };
  for (const Case& c : cases)
    for (const char* arch : {"sm_80", "sm_90a"})
      for (const char* features : {"", "ptx"}) {
        SCOPED_TRACE(std::string(c.name) + " for " + arch + features);
        CompileRequest request = scale_request(arch);
        request.target.features = features;
        request.source = {"test/scale_kernel.hpp", c.text, {}};
        const Artifact artifact = compiler_->compile(request);
        EXPECT_EQ(artifact.takes_dynamic_shared, c.takes);
        EXPECT_EQ(artifact.dynamic_shared_bytes, c.bytes);
      }
}

TEST_F(NvrtcCompiler, RefusesTwoOperandsThatAreTooLargeToDeclare) {
  CompileRequest request = scale_request("sm_90a");
  request.source = {"test/scale_kernel.hpp",
                    R"(
#include <kiln/tl.hpp>
namespace test {
namespace tl = kiln::tl;
template <typename T, int BLOCK_SIZE>
KILN_KERNEL void scale_kernel(const T* x, T* out) {
  const auto operand = [&](const T* from) {
    return tl::dot_operand([&] {
      return tl::deferred_load(from + (tl::expand_dims<1>(tl::arange<128>()) * 128 + tl::expand_dims<0>(tl::arange<128>())));
    });
  };
  const auto tile = tl::expand_dims<1>(tl::arange<128>()) * 128 + tl::expand_dims<0>(tl::arange<128>());
  tl::store(out + tile, tl::dot(operand(x), operand(x + 16384)));
}
})",
                    {}};
  try {
    compiler_->compile(request);
    FAIL() << "compiled";
  } catch (const CompileError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("a kernel has room for one"));
  }
}

TEST_F(NvrtcCompiler, SaysThatAKernelDeclaresTooMuchSharedMemory) {
  const CompileRequest request =
      tiny_request("", "__shared__ float kept[16385]; kept[threadIdx.x] = x[0]; x[0] = kept[1];");
  for (const bool asks_for_report : {false, true}) try {
      if (asks_for_report)
        ptxas_report(request, false);
      else
        compiler_->compile(request);
      FAIL() << "compiled";
    } catch (const CompileError& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr("too much shared data"));
    }
}

TEST_F(NvrtcCompiler, KeepsSourceLinesWhenAsked) {
  CompileRequest request = scale_request("sm_90a");
  EXPECT_EQ(text_of(compiler_->compile(request)).find(".debug_line"), std::string::npos);
  request.line_info = true;
  EXPECT_NE(text_of(compiler_->compile(request)).find(".debug_line"), std::string::npos);
}

TEST_F(NvrtcCompiler, CompileErrorsNameTheKernelFileLineAndCode) {
  CompileRequest request = scale_request("sm_80");
  request.source.text =
      "namespace test {\ntemplate <typename T, int N> __global__ void scale_kernel(T* out) {\n  *out = "
      "undeclared_name;\n}\n}\n";
  try {
    compiler_->compile(request);
    FAIL() << "the kernel compiled";
  } catch (const CompileError& error) {
    EXPECT_EQ(error.op(), "scale");
    EXPECT_EQ(error.configuration(), request.configuration);
    EXPECT_THAT(error.log(), Says("test/scale_kernel.hpp(3)", "undeclared_name", "*out ="));
  }
}

TEST_F(NvrtcCompiler, EveryKindOfBadKernelIsACompileError) {
  const char* bodies[] = {
      "namespace test { template <typename T, int N> __global__ void other_kernel(T* out) {} }",  // no such template
      "namespace test { template <typename T, int N> __device__ void scale_kernel(T* out) {} }",  // not a kernel
      "namespace test { template <typename T> __global__ void scale_kernel(T* out) {} }",         // other parameters
      "#include <vector>\nnamespace test { template <typename T, int N> __global__ void scale_kernel() {} }",  // no
                                                                                                               // such
                                                                                                               // header
      "namespace test { template <typename T, int N> __global__ void scale_kernel(T* out) { static_assert(N > 1000, "
      "\"small\"); } }",
      "#error broken",
      "namespace test { template <typename T, int N> __global__ void scale_kernel(T* out) { __shared__ T big[1 << 20]; "
      "big[threadIdx.x] = *out; __syncthreads(); *out = big[7]; } }",
      "namespace test { template <typename T, int N> __global__ void scale_kernel(T* out) { "
      "asm(\"no.such.instruction;\"); } }",
      "namespace test { __device__ int nowhere(); template <typename T, int N> __global__ void scale_kernel(T* out) { "
      "*out = nowhere(); } }",
  };
  for (const char* body : bodies) {
    CompileRequest request = scale_request("sm_80");
    request.source.text = body;
    SCOPED_TRACE(body);
    EXPECT_NE(compile_log([&] { compiler_->compile(request); }), "");
  }
}

TEST_F(NvrtcCompiler, RefusesTargetsThatItDoesNotServe) {
  EXPECT_THROW(compiler_->compile(scale_request("gfx942")), UsageError);
  CompileRequest cpu = scale_request("sm_80");
  cpu.target = {DeviceType::cpu, "znver5", {}};
  EXPECT_THROW(compiler_->compile(cpu), UsageError);
  EXPECT_THAT(usage_message(UsageError::Kind::not_implemented, [&] { compiler_->compile(scale_request("sm_35")); }),
              HasSubstr("sm_90"));
}

TEST_F(NvrtcCompiler, CompilesTheSameBytesFromEveryThread) {
  const std::vector<std::byte> expected = compiler_->compile(scale_request("sm_90a")).code;
  std::vector<std::vector<std::byte>> codes(4);
  std::vector<std::thread> threads;
  for (auto& code : codes) threads.emplace_back([&] { code = compiler_->compile(scale_request("sm_90a")).code; });
  for (std::thread& thread : threads) thread.join();
  for (const auto& code : codes) EXPECT_EQ(code, expected);
}

TEST_F(NvrtcCompiler, IdentityNamesVersionBuildAndOptions) {
  const std::string identity(compiler_->identity());
  EXPECT_TRUE(identity.starts_with("nvrtc ")) << identity;
  EXPECT_NE(identity.find(" build "), std::string::npos) << identity;
  EXPECT_NE(identity.find("--std=c++20"), std::string::npos) << identity;
  EXPECT_EQ(nvrtc_version() / 1000, std::stoi(identity.substr(6)));
}

TEST_F(NvrtcCompiler, ServesATileKernel) {
  CompileRequest request = scale_request("sm_90a");
  request.source.headers.clear();
  request.source.text = R"(#include <kiln/tl.hpp>
namespace tl = kiln::tl;
namespace test {
template <typename T, int BLOCK_SIZE>
KILN_KERNEL void scale_kernel(const T* x, T* out, tl::int64_t n) {
  auto offsets = tl::program_id(0) * BLOCK_SIZE + tl::arange<BLOCK_SIZE>();
  auto mask = offsets < n;
  tl::store(out + offsets, tl::load(x + offsets, mask) + tl::load(x + offsets, mask), mask);
}
}
)";
  const Artifact artifact = compiler_->compile(request);
  EXPECT_EQ(artifact.kind, ArtifactKind::cubin);
  RecordProperty("compile_time_us", std::to_string(artifact.compile_time_us));
}

TEST(NvrtcProblem, SaysWhatToInstallWhenTheLibraryIsNotWhereItWasSaidToBe) {
  // The library is opened once per process, so this needs a fresh one.
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        setenv("KILN_NVRTC_PATH", "/nonexistent/libnvrtc.so", 1);
        const std::string problem = nvrtc_problem();
        const bool is_clear = problem.find("/nonexistent/libnvrtc.so") != std::string::npos &&
                              problem.find("KILN_NVRTC_PATH") != std::string::npos;
        try {
          make_nvrtc_compiler();
        } catch (const DeviceError&) {
          std::_Exit(is_clear && nvrtc_version() == 0 ? 0 : 1);
        }
        std::_Exit(2);
      },
      testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace kiln::test
