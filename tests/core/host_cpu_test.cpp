#include "core/host_cpu.hpp"

#include "tests/support/error_message.hpp"
#include "tests/support/matchers.hpp"

namespace kiln::test {
namespace {

constexpr const char* kOffered =
    "+avx,+avx2,+avx512bf16,+bmi,+bmi2,+f16c,+fma,+lzcnt,+movbe,+popcnt,+sse3,+sse4.1,+sse4.2,+ssse3";

TEST(CpuFeatures, LevelsHoldTheOnesBelowThem) {
  EXPECT_EQ(choose_cpu_features("x86-64-v2", kOffered), "+popcnt,+sse3,+sse4.1,+sse4.2,+ssse3");
  EXPECT_EQ(choose_cpu_features("x86-64-v3", kOffered),
            "+avx,+avx2,+bmi,+bmi2,+f16c,+fma,+lzcnt,+movbe,+popcnt,+sse3,+sse4.1,+sse4.2,+ssse3");
  EXPECT_EQ(choose_cpu_features("x86-64-v2,+avx,+sse3", kOffered), "+avx,+popcnt,+sse3,+sse4.1,+sse4.2,+ssse3");
  EXPECT_EQ(choose_cpu_features("+fma", kOffered), "+fma");
}

TEST(CpuFeatures, RefusesWhatIsNotOffered) {
  EXPECT_THAT(value_error([] { choose_cpu_features("x86-64-v4", kOffered); }),
              AllOf(HasSubstr("'x86-64-v4'"), HasSubstr("+avx512f"), HasSubstr("this CPU offers +avx,")));
  for (const char* text : {"avx2", "x86-64", "x86-64-v5", "+", "-avx2", "x86-64-v2,,+avx"})
    EXPECT_THAT(value_error([&] { choose_cpu_features(text, kOffered); }),
                HasSubstr("environment variable KILN_CPU_FEATURES"))
        << text;
}

}  // namespace
}  // namespace kiln::test
