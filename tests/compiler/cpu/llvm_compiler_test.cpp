#include <atomic>
#include <thread>

#include "compiler/compilers.hpp"
#include "compiler/host_cpu.hpp"
#include "compiler/stub.hpp"
#include "core/errors.hpp"
#include "tests/support/matchers.hpp"

namespace kiln::test {
namespace {

/// The part of the tile language that the stub relies on, small enough that what a test sees comes from the test.
constexpr const char* kTinyTl = R"(#pragma once
namespace kiln::tl {
using int64_t = long long;
namespace cpu {
static int64_t kiln_program[6] __asm__("kiln_program");
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

  const std::string of_a_name_like_it = compiler().emit(tiny(R"(static int kiln_program_steps[4] = {5, 6, 7, 8};
template <int N> void tiny_kernel(float* x) { x[kiln::tl::program_id(0)] = kiln_program_steps[int(*x) & 3]; }
)"),
                                                        EmitKind::llvm_ir);
  EXPECT_THAT(of_a_name_like_it, HasSubstr("[i32 5, i32 6, i32 7, i32 8]"));
  EXPECT_THAT(of_a_name_like_it, Not(HasSubstr("alloca")));
}

constexpr const char* kAvx2 = "+avx,+avx2";

/// The kernel for a CPU of these features.
std::string assembly(const std::string& kernel_text, const std::string& features, const std::string& arch = "x86-64") {
  CompileRequest request = tiny(kernel_text);
  request.target = {DeviceType::cpu, arch, features};
  return compiler().emit(request, EmitKind::assembly);
}

TEST(LlvmCompiler, EmitsAssemblyForTheTargetsFeaturesOnly) {
  const std::string avx512 = std::string(kAvx2) + ",+avx512f,+avx512vl,+avx512bw,+avx512dq";
  EXPECT_THAT(assembly(kDouble, ""), HasSubstr("xmm"));
  EXPECT_THAT(assembly(kDouble, ""), Not(HasSubstr("ymm")));
  EXPECT_THAT(assembly(kDouble, kAvx2), HasSubstr("ymm"));
  EXPECT_THAT(assembly(kDouble, avx512), HasSubstr("zmm"));
  EXPECT_THAT(assembly(kDouble, avx512, "no-such-cpu"), HasSubstr("kiln_entry"));
  EXPECT_THROW(compiler().emit(tiny(kDouble), EmitKind::ptx), UsageError);
}

TEST(LlvmCompiler, MathFunctionsBecomeVectorCalls) {
  EXPECT_THAT(assembly(R"(template <int N> void tiny_kernel(float* x) {
  for (int i = 0; i < N; ++i) x[i] = __builtin_expf(x[i]);
  for (int i = 0; i < N; ++i) x[i] = __builtin_erff(x[i]);
  for (int i = 0; i < N; ++i) x[i] = __builtin_powf(x[i], 1.5f);
}
)",
                       kAvx2),
              Says("_ZGVdN8v_expf", "_ZGVdN8v_erff", "_ZGVdN8vv_powf"));
}

/// The first program_id(0) of 8 elements; `pragma` stands before the loop that stores them.
std::string masked(const std::string& pragma = "") {
  return R"(template <int N> void tiny_kernel(float* x) {
  const int room = static_cast<int>(kiln::tl::program_id(0));
  float values[8];
  for (int i = 0; i < 8; ++i) values[i] = i < room ? x[i] : 0;
  for (int i = 0; i < 8; ++i) values[i] = __builtin_expf(values[i]);
)" + pragma +
         R"(
  for (int i = 0; i < 8; ++i)
    if (i < room) x[i] = values[i];
}
)";
}

TEST(LlvmCompiler, FewMaskedElementsAreAVector) {
  const std::string text = assembly(masked(), kAvx2);
  EXPECT_THAT(text, Says("_ZGVdN8v_expf", "vmaskmovps"));
  EXPECT_THAT(text, Not(HasSubstr("\texpf@"))) << "a call for each element";
  EXPECT_THAT(text, HasSubstr("vpcmpgtd"));
  EXPECT_THAT(text, Not(HasSubstr("vpcmpgtq"))) << "masks are compared in 32 bits";
}

TEST(LlvmCompiler, LoopsThatSayHowTheyAreUnrolledAreUnrolledSo) {
  constexpr const char* kStoreOfAVector = "vmaskmovps\t%";
  EXPECT_THAT(assembly(masked(), kAvx2), HasSubstr(kStoreOfAVector));
  EXPECT_THAT(assembly(masked("#pragma clang loop unroll(full)"), kAvx2), Not(HasSubstr(kStoreOfAVector)));
}

TEST(LlvmCompiler, SyntaxErrorsComeWithTheirSourceLine) {
  const std::string log =
      failure(tiny("template <int N> void tiny_kernel(float* x) {\n  x[0] = undeclared_name;\n}\n"));
  EXPECT_THAT(log, Says("ops/tiny/kernel.hpp:3:10: error: use of undeclared identifier 'undeclared_name'",
                        "x[0] = undeclared_name;", "         ^"));
  EXPECT_THAT(log, Not(HasSubstr("./ops")));
}

TEST(LlvmCompiler, FailedAssertionsAndInstantiationsSayWhere) {
  const std::string log = failure(tiny(
      "template <int N> void tiny_kernel(float* x) {\n  static_assert(N == 32, \"N must be 32\");\n  x[0] = N;\n}\n"));
  EXPECT_THAT(log, Says("ops/tiny/kernel.hpp:3:17: error: static assertion failed", "N must be 32", "requested here"));
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
  EXPECT_THAT(log, Says("program id", "f()"));
}

// The interrupted compile leaks, as its handler says; a leak checker is right to say so too.
#if !defined(__SANITIZE_ADDRESS__)
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

/// `text` as the body of the kernel, with `before` at namespace scope.
CompileRequest with_body(const std::string& text, const std::string& before = {}) {
  return tiny(before + "template <int N> void tiny_kernel(float* x) { " + text + " }\n");
}

struct GlobalCase {
  const char* name;
  const char* declarations;
  const char* body;
  const char* says;
};

class NeedsCodeOfItsOwn : public testing::TestWithParam<GlobalCase> {};

TEST_P(NeedsCodeOfItsOwn, IsRefusedWithItsNameAndLine) {
  const auto& [name, declarations, body, says] = GetParam();
  const std::string log =
      failure(with_body(body, std::string("__attribute__((noinline)) int f() { return *(volatile int*)nullptr; }\n") +
                                  declarations + "\n"));
  EXPECT_THAT(log, Says("ops/tiny/kernel.hpp:", "error: "));
  EXPECT_THAT(log, HasSubstr(says));
}

INSTANTIATE_TEST_SUITE_P(
    Globals, NeedsCodeOfItsOwn,
    testing::Values(
        GlobalCase{"plain", "int g = f();", "x[0] = g;", "'g' needs code"},
        GlobalCase{"static_one", "static const int g = f();", "x[0] = g;", "'g' needs code"},
        GlobalCase{"inline_one", "inline int g = f();", "x[0] = g;", "'g' needs code"},
        GlobalCase{"unread", "int g = f();", "x[0] = 1;", "'g' needs code"},
        GlobalCase{"in_a_namespace", "namespace a { int g = f(); }", "x[0] = a::g;", "'g' needs code"},
        GlobalCase{"constructed", "struct S { int a; S() : a(f()) {} }; S g;", "x[0] = g.a;", "'g' needs code"},
        GlobalCase{"element", "int g[3] = {1, f(), 3};", "x[0] = g[1];", "'g' needs code"},
        GlobalCase{"variable_template", "template <int I> int g = f() + I;", "x[0] = g<N>;", "needs code"},
        GlobalCase{"static_member", "template <int I> struct S { static int g; }; template <int I> int S<I>::g = f();",
                   "x[0] = S<N>::g;", "'g' needs code"},
        GlobalCase{"destructor", "struct S { int a; ~S() { a = f(); } }; S g{5};", "x[0] = g.a;", "'g' needs code"},
        GlobalCase{"constructor_function", "int g; __attribute__((constructor)) void set() { g = 5; }", "x[0] = g;",
                   "'set()' needs code"},
        GlobalCase{"destructor_function", "int g; __attribute__((destructor)) void set() { g = 5; }", "x[0] = g;",
                   "'set()' needs code"},
        GlobalCase{"in_thread", "thread_local int g = 5;", "x[0] = g;", "'g' is thread_local"},
        GlobalCase{"gnu_thread", "__thread int g;", "x[0] = g;", "'g' is thread_local"},
        GlobalCase{"local", "inline int h() { static int g = f(); return g; }", "x[0] = h();", "'g' needs code"},
        GlobalCase{"local_in_kernel", "", "static int g = f(); x[0] = g;", "'g' needs code"},
        GlobalCase{"local_with_destructor", "struct S { int a; ~S() { a = f(); } };", "static S g{5}; x[0] = g.a;",
                   "'g' needs code"}),
    [](const auto& instance) { return std::string(instance.param.name); });

TEST(LlvmCompiler, GlobalsWithConstantInitialisersCompile) {
  EXPECT_GT(compiler()
                .compile(with_body("static int local = 3; static constexpr float t[] = {1, 2}; int i = x[1];\n"
                                   "x[0] = a + b[i] + c[i] + d + e.v + S<N>::m + v<N> + local + t[i] + g.w;",
                                   "constexpr int a = 1; const float b[] = {1, 2, 3}; static int c[4]; int d = 5;\n"
                                   "struct C { int v; constexpr C(int i) : v(2 * i) {} }; C e{4};\n"
                                   "template <int I> struct S { static int m; }; template <int I> int S<I>::m = I;\n"
                                   "template <int I> inline constexpr int v = I; struct P { int w = 7; }; P g;\n"))
                .code.size(),
            64U);
}

std::string repeated(const std::string& text, int count) {
  std::string all;
  for (int i = 0; i < count; ++i) all += text;
  return all;
}

struct DeepCase {
  const char* name;
  const char *begin, *each, *middle, *each_end, *end;
};

/// Whatever is nested or chained, the process lives: it compiles, or it is a CompileError.
class DeepSource : public testing::TestWithParam<DeepCase> {};

TEST_P(DeepSource, IsAnErrorOrCompiles) {
  const DeepCase& deep = GetParam();
  for (const int depth : {100, 1'500, 10'000, 200'000}) {
    const std::string text =
        deep.begin + repeated(deep.each, depth) + deep.middle + repeated(deep.each_end, depth) + deep.end;
    try {
      EXPECT_GT(
          compiler().compile(tiny(text + "\ntemplate <int N> void tiny_kernel(float* x) { x[0] = 1; }\n")).code.size(),
          64U);
    } catch (const CompileError& error) {
      EXPECT_GT(depth, 100) << error.log().substr(0, 500);
      EXPECT_THAT(error.log(), HasSubstr("error:"));
    }
  }
}

constexpr const char* kFunction = "float f(float a, float* x) { return ";

INSTANTIATE_TEST_SUITE_P(
    Nesting, DeepSource,
    testing::Values(
        DeepCase{"unary_minus", kFunction, "- ", "a", "", "; }"},
        DeepCase{"logical_not", kFunction, "!", "a", "", "; }"},
        DeepCase{"casts", kFunction, "(float)", "a", "", "; }"},
        DeepCase{"parentheses", kFunction, "(", "a", ")", "; }"},
        DeepCase{"subscripts", kFunction, "x[(int)", "a", "]", "; }"},
        DeepCase{"calls", "float g(float); float g(float a) { return ", "g(", "a", ")", "; }"},
        DeepCase{"sums", kFunction, "a + ", "a", "", "; }"},
        DeepCase{"conditions", kFunction, "a > 1 ? 2 : ", "a", "", "; }"},
        DeepCase{"assignments", kFunction, "a = ", "1", "", "; }"},
        DeepCase{"commas", kFunction, "a, ", "a", "", "; }"}, DeepCase{"blocks", "void f() ", "{", "", "}", ""},
        DeepCase{"ifs", "float f(float a) { ", "if (a > 1) ", "a = 2;", "", " return a; }"},
        DeepCase{"else_ifs", "float f(float a) { ", "if (a > 1) a = 2; else ", "a = 3;", "", " return a; }"},
        DeepCase{"else_blocks", "float f(float a) { ", "if (a > 1) { a = 2; } else ", "{ a = 3; }", "", " return a; }"},
        DeepCase{"loops", "float f(float a) { ", "for (;;) ", "a = 2;", "", " return a; }"},
        DeepCase{"lambdas", "auto f() { return ", "[] { return ", "1;", "};", " }"},
        DeepCase{"members", "struct S { S& g(); }; S& f(S& s) { return s", ".g()", "", "", "; }"},
        DeepCase{"sums_of_braces", "struct S { S operator+(S); }; S f() { return ", "S{} + ", "S{}", "", "; }"},
        DeepCase{"namespaces", "", "namespace n { ", "", "}", ""}, DeepCase{"classes", "", "struct { ", "", "} s;", ""},
        DeepCase{"pointers", "float ", "*", "p;", "", ""}, DeepCase{"arrays", "extern float p", "[1]", ";", "", ""},
        DeepCase{"template_arguments", "template <class T> struct V; using A = ", "V<", "int", ">", ";"},
        DeepCase{"template_lists", "template <class, class> struct V; using A = ", "V<int, ", "int", ">", ";"},
        DeepCase{"initialisers", "struct S { S* s; }; S s = ", "{", "", "}", ";"},
        DeepCase{"conditionals", "", "#if 1\n", "", "#endif\n", ""},
        DeepCase{"preprocessor", "#if ", "(", "1", ")", "\n#endif\n"}),
    [](const auto& instance) { return std::string(instance.param.name); });

TEST(LlvmCompiler, MacrosCountAsWhatTheyStandFor) {
  std::string macros = "#define M0 - -\n";
  for (int i = 1; i < 22; ++i)
    macros += "#define M" + std::to_string(i) + " M" + std::to_string(i - 1) + " M" + std::to_string(i - 1) + "\n";
  EXPECT_THAT(failure(with_body("x[0] = M21 x[1];", macros)), HasSubstr("tokens"));
}

TEST(LlvmCompiler, TablesMayBeLong) {
  const std::string elements = repeated("1.5f, ", 30'000);
  for (const std::string& table :
       {"constexpr float t[] = {" + elements + "};", "constexpr float t[30000]{" + elements + "};",
        "struct S { float v[30000]; }; constexpr S s = {{" + elements + "}}; constexpr auto& t = s.v;"})
    EXPECT_GT(compiler().compile(with_body("x[0] = t[(int)x[1]];", table + "\n")).code.size(), 64U);
  EXPECT_GT(compiler().compile(with_body(repeated("x[1] = x[0] * 3; { x[2] += 1; }\n", 1'000))).code.size(), 64U);
  EXPECT_THAT(failure(with_body("x[0] = 1;", "float f(float a) { return " + repeated("a, ", 20'000) + "a; }\n")),
              HasSubstr("tokens"));
}

TEST(LlvmCompiler, DeepTemplatesAndConstantFunctionsEndInAnErrorOrCompile) {
  const std::string deep =
      "template <int D> struct Deep { static constexpr int v = Deep<D - 1>::v + 1; };\n"
      "template <> struct Deep<0> { static constexpr int v = 0; };\n"
      "constexpr int count(int n) { return n == 0 ? 0 : 1 + count(n - 1); }\n";
  EXPECT_GT(compiler().compile(with_body("x[0] = Deep<900>::v + count(400);", deep)).code.size(), 64U);
  EXPECT_THAT(failure(with_body("x[0] = Deep<100000>::v;", deep)), HasSubstr("recursive template instantiation"));
  EXPECT_THAT(failure(with_body("constexpr int c = count(100000); x[0] = c;", deep)), HasSubstr("constant expression"));
}

TEST(LlvmCompiler, LocalsThatDoNotFitTheStackAreRefused) {
  const std::string copy =
      "for (int i = 0; i < n; ++i) t[i] = x[i]; for (int i = 0; i < n; ++i) x[i] = t[n - 1 - i] + t[i / 2];";
  const std::string log = failure(with_body("constexpr int n = 2500000; float t[n]; " + copy));
  EXPECT_THAT(log, Says("bytes of stack", "2097152"));
  EXPECT_THAT(log, HasSubstr("take 10000"));  // 10,000,120 or so
  EXPECT_GT(compiler().compile(with_body("constexpr int n = 400000; float t[n]; " + copy)).code.size(), 64U);
  // Two functions that fit by themselves.
  const std::string function =
      "template <int I> __attribute__((noinline)) void part(float* x) { constexpr int n = 300000; float t[n]; " + copy +
      " }\n";
  EXPECT_THAT(failure(with_body("part<1>(x); part<2>(x);", function)), HasSubstr("bytes of stack"));
  EXPECT_THAT(failure(with_body("int n = x[0]; float t[n]; " + copy)), HasSubstr("size is not known"));
  EXPECT_THAT(
      failure(with_body("alignas(1 << 24) float t[16]; asm volatile(\"\" ::\"r\"(t) : \"memory\"); x[0] = t[3];")),
      HasSubstr("bytes of stack"));
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
}  // namespace kiln::test
