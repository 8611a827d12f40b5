#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "compiler/nvrtc_compiler.hpp"
#include "core/errors.hpp"
#include "tests/support/devices.hpp"
#include "tests/tl/text_kernel.hpp"

namespace kiln::test {
namespace {

using ::testing::HasSubstr;

/// The log of a kernel with the statement, which compiles for no target.
std::string log_of(const Target& target, const std::string& statement) {
  TextKernel wrong{"wrong.hpp",
                   "#include <kiln/tl.hpp>\ntemplate <typename T>\n"
                   "KILN_KERNEL void wrong(const T* x, T* out, int64_t n) {\n"
                   "  const auto i = tl::arange<64>();\n"
                   "  const auto rows = tl::expand_dims<1>(tl::arange<32>());\n"
                   "  const auto columns = tl::expand_dims<0>(tl::arange<32>());\n"
                   "  auto a = tl::load(x + i);\n  " +
                       statement + "\n}\n",
                   "wrong",
                   {DType::f32}};
  try {
    compiler_for(target.type).compile(wrong.request(target));
  } catch (const CompileError& error) {
    return error.log();
  }
  return "it compiled";
}

struct Mistake {
  const char* statement;
  const char* message;
};

constexpr Mistake kMistakes[] = {
    {"tl::store(out + i, tl::exp(tl::cast<int>(a)));", "exp: of floats, as in Triton; cast<float>(x)"},
    {"tl::store(out + i, tl::pow(i, 2));", "pow: of floats, as in Triton; cast<float>(x)"},
    {"tl::store(x + i, a);", "store: the pointer is to const"},
    {"tl::store(x + i, a, i < n);", "store: the pointer is to const"},
    {"tl::store(x, 1.f);", "store: the pointer is to const"},
    {"tl::store(out, a);", "store: a plain pointer takes one number"},
    {"a = tl::cast<double>(a);", "a tile keeps the dtype that it was made with"},
    {"a += tl::cast<double>(a);", "a tile keeps the dtype that it was made with"},
    {"a = tl::load(x + tl::arange<32>());", "a tile keeps the shape that it was made with"},
    {"a = i;", "a tile is assigned a tile"},
    {"auto j = tl::arange<32>(); j += tl::arange<32>();", "of another type than the symbolic variable"},
    {"if (a > 0) tl::store(out + i, a);", "a tile is no condition"},
    {"tl::store(out + i, a > 0 ? a : -a);", "a tile is no condition"},
    {"if (i < n) tl::store(out + i, a);", "a mask is no condition"},
    {"if ((i < n) & (i > 2)) tl::store(out + i, a);", "a mask is no condition"},
    {"tl::store(out + i, a + tl::load(x + tl::arange<32>()));", "these tile shapes do not broadcast"},
    {"tl::store(out + i, a + tl::load(x + rows));", "apply expand_dims first"},
    {"const auto b = tl::arange<48>(); tl::store(out + b, tl::load(x + b));", "extents that are no powers of two"},
    {"tl::pipeline<2>(n, [&](int64_t) { return tl::load(x + (rows * 32 + columns)); }, [](const auto&) {});",
     "what loads returns is a deferred_load or a Tuple of them"},
};

TEST(LanguageMessages, SayWhatIsWrongOnTheCpu) {
  for (const Mistake& mistake : kMistakes)
    EXPECT_THAT(log_of(host_cpu_target(), mistake.statement), HasSubstr(mistake.message)) << mistake.statement;
}

TEST(LanguageMessages, SayWhatIsWrongOnGpus) {
  if (const std::string problem = nvrtc_problem(); !problem.empty()) GTEST_SKIP() << problem;
  const Target target = parse_cuda_target("sm_90a");
  for (const Mistake& mistake : kMistakes)
    EXPECT_THAT(log_of(target, mistake.statement), HasSubstr(mistake.message)) << mistake.statement;
  EXPECT_THAT(log_of(target, "const auto b = tl::arange<1048576>(); tl::store(out + b, tl::load(x + b));"),
              HasSubstr("has more elements than they hold twice over"));
}

TEST(LanguageMessages, NameBothShapes) {
  const std::string statement = "tl::store(out + i, a + tl::load(x + tl::arange<32>()));";
  EXPECT_THAT(log_of(host_cpu_target(), statement),
              HasSubstr("kShapesBroadcast<kiln::tl::Shape<64>, kiln::tl::Shape<32>>"));
  if (const std::string problem = nvrtc_problem(); !problem.empty()) GTEST_SKIP() << problem;
  EXPECT_THAT(log_of(parse_cuda_target("sm_90a"), statement),
              HasSubstr("A=kiln::tl::Shape<64>, B=kiln::tl::Shape<32>"));
}

TEST(LanguageMessages, StandAloneOnGpus) {
  if (const std::string problem = nvrtc_problem(); !problem.empty()) GTEST_SKIP() << problem;
  const std::string log =
      log_of(parse_cuda_target("sm_90a"),
             "const auto m = tl::load(x + (rows * 32 + columns));\n"
             "tl::store(out + tl::arange<32>(), tl::sum<1>(m) + tl::cast<float>(tl::argmax<1>(m)));\n"
             "tl::store(out + (rows * 32 + columns), tl::cumsum<1>(tl::dot(m, m)));\n"
             "tl::store(out + i, tl::exp(tl::cast<int>(a)));");
  EXPECT_THAT(log, HasSubstr("exp: of floats"));
  EXPECT_EQ(log.find("warning"), std::string::npos) << "of the headers' own: " << log;
}

}  // namespace
}  // namespace kiln::test
