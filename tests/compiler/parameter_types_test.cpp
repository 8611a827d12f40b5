// A launch passes addresses without types, so a kernel that declares other ones must not compile.

#include "compiler/compilers.hpp"
#include "tests/support/error_message.hpp"
#include "tests/support/matchers.hpp"

namespace kiln::test {
namespace {

constexpr const char* kText = R"(#include <kiln/tl.hpp>
template <typename T, int BLOCK_SIZE>
KILN_KERNEL void fill(const T* x, T* out, const tl::int64_t n, tl::float16 value) {
  auto offsets = tl::arange<BLOCK_SIZE>();
  tl::store(out + offsets, tl::load(x + offsets), offsets < n);
}
)";

class ParameterTypes : public ::testing::TestWithParam<Target> {
 protected:
  void SetUp() override {
    if (const std::string problem = compiler_problem(GetParam().type); !problem.empty()) GTEST_SKIP() << problem;
  }

  static CompileRequest request(std::vector<std::string> types) {
    CompileRequest request;
    request.op = "fill";
    request.source = {"fill.hpp", kText, {}};
    request.kernel = "fill";
    request.template_arguments = {DType::f32, std::int64_t{128}};
    request.num_parameters = 4;
    request.parameter_types = std::move(types);
    request.target = GetParam();
    return request;
  }

  /// The compiler's log for a request that it refuses.
  static std::string log_of(std::vector<std::string> types) {
    return compile_log([&] { compiler_for(GetParam().type).compile(request(std::move(types))); });
  }
};

TEST_P(ParameterTypes, AcceptsWhatTheKernelDeclares) {
  EXPECT_FALSE(compiler_for(GetParam().type)
                   .compile(request({"const float*", "float*", "kiln::tl::int64_t", "kiln::tl::float16"}))
                   .code.empty());
}

TEST_P(ParameterTypes, RefusesAnythingElseNamingBothTypes) {
  const std::string pointee = log_of({"const double*", "float*", "kiln::tl::int64_t", "kiln::tl::float16"});
  EXPECT_THAT(pointee, Says("parameter 1 of the kernel is passed as const double*", "const float *"));
  EXPECT_THAT(log_of({"const float*", "const float*", "kiln::tl::int64_t", "kiln::tl::float16"}),
              HasSubstr("parameter 2 of the kernel is passed as const float*"));
  EXPECT_THAT(log_of({"const float*", "float*", "int", "kiln::tl::float16"}),
              HasSubstr("parameter 3 of the kernel is passed as int"));
  EXPECT_THAT(log_of({"const float*", "float*", "kiln::tl::int64_t", "kiln::tl::bfloat16"}),
              HasSubstr("parameter 4 of the kernel is passed as kiln::tl::bfloat16"));
}

TEST_P(ParameterTypes, SaysFirstThatTheNumberIsWrong) {
  CompileRequest five = request({"const float*", "float*", "kiln::tl::int64_t", "kiln::tl::float16", "int"});
  five.num_parameters = 5;
  EXPECT_THAT(compile_log([&] { compiler_for(GetParam().type).compile(five); }),
              HasSubstr("launches this kernel with 5 parameters"));
}

INSTANTIATE_TEST_SUITE_P(Targets, ParameterTypes,
                         ::testing::Values(Target{DeviceType::cpu, "x86-64", ""},
                                           Target{DeviceType::cuda, "sm_90a", ""}),
                         [](const auto& target) {
                           return std::string(target.param.type == DeviceType::cpu ? "cpu" : "cuda");
                         });

}  // namespace
}  // namespace kiln::test
