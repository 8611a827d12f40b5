// A struct of numbers and flags as a template argument: its values reach the kernel by name, and one that is not what
// the kernel declares does not compile.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/compilers.hpp"
#include "core/errors.hpp"

namespace kiln {
namespace {

using ::testing::HasSubstr;

constexpr const char* kStructKernel = R"(#include <kiln/tl.hpp>
struct Tiling {
  int rows, columns;
  bool split;
};
template <typename T, Tiling TILING>
KILN_KERNEL void fill(T* out) {
  static_assert(TILING.rows == 2 && TILING.columns == 64 && TILING.split, "other values");
  auto offsets = tl::arange<TILING.rows * TILING.columns>();
  tl::store(out + offsets, tl::full<T, TILING.rows * TILING.columns>(T(1)));
}
)";

class StructArgument : public ::testing::TestWithParam<Target> {
 protected:
  static constexpr std::int64_t kRows = 2, kColumns = 64;

  void SetUp() override {
    if (const std::string problem = compiler_problem(GetParam().type); !problem.empty()) GTEST_SKIP() << problem;
  }

  /// The compiler's log for a request that it refuses.
  static std::string log_of(std::vector<StructValue::Field> fields) {
    CompileRequest request;
    request.op = "fill";
    request.source = {"fill.hpp", kStructKernel, {}};
    request.kernel = "fill";
    request.template_arguments = {DType::f32, StructValue{"Tiling", std::move(fields)}};
    request.num_parameters = 1;
    request.parameter_types = {"float*"};
    request.target = GetParam();
    try {
      return compiler_for(GetParam().type).compile(request).code.empty() ? "no code" : "it compiled";
    } catch (const CompileError& error) {
      return error.log();
    }
  }
};

TEST_P(StructArgument, ReachesTheKernelByName) {
  EXPECT_EQ(log_of({{"rows", kRows}, {"columns", kColumns}, {"split", true}}), "it compiled");
  EXPECT_THAT(log_of({{"rows", kRows}, {"columns", kColumns}, {"split", false}}), HasSubstr("other values"));
  EXPECT_THAT(log_of({{"rows", kColumns}, {"columns", kRows}, {"split", true}}), HasSubstr("other values"));
}

TEST_P(StructArgument, RefusesFieldsThatTheStructLacks) {
  EXPECT_THAT(log_of({{"rows", kRows}, {"colums", kColumns}, {"split", true}}), HasSubstr("colums"));
  EXPECT_THAT(log_of({{"rows", kRows}, {"columns", kColumns}, {"split", true}, {"depth", kRows}}), HasSubstr("depth"));
}

TEST_P(StructArgument, RefusesToLeaveAFieldOut) {
  EXPECT_THAT(log_of({{"rows", kRows}, {"columns", kColumns}}),
              HasSubstr("the op gives 2 of Tiling's fields, and the struct has more"));
  EXPECT_THAT(log_of({{"columns", kColumns}}), HasSubstr("the op gives 1 of Tiling's fields"));
}

TEST_P(StructArgument, RefusesNumbersThatTheFieldCannotHold) {
  EXPECT_THAT(log_of({{"rows", kRows}, {"columns", std::int64_t{1} << 40}, {"split", true}}),
              HasSubstr("columns of Tiling cannot hold 1099511627776"));
  EXPECT_THAT(log_of({{"rows", kRows}, {"columns", kColumns}, {"split", kRows}}),
              HasSubstr("split of Tiling cannot hold 2"));
}

INSTANTIATE_TEST_SUITE_P(Targets, StructArgument,
                         ::testing::Values(Target{DeviceType::cpu, "x86-64", ""},
                                           Target{DeviceType::cuda, "sm_90a", ""}),
                         [](const auto& target) {
                           return std::string(target.param.type == DeviceType::cpu ? "cpu" : "cuda");
                         });

}  // namespace
}  // namespace kiln
