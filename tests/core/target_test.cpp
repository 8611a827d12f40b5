#include "core/target.hpp"

#include "tests/support/error_message.hpp"
#include "tests/support/matchers.hpp"

namespace kiln::test {
namespace {

TEST(Target, OfComputeCapabilities) {
  EXPECT_EQ(cuda_target(8, 0).arch, "sm_80");
  EXPECT_EQ(cuda_target(8, 9).arch, "sm_89");
  EXPECT_EQ(cuda_target(9, 0).arch, "sm_90a");
  EXPECT_EQ(cuda_target(10, 0).arch, "sm_100a");
  EXPECT_EQ(cuda_target(12, 1).arch, "sm_121a");
}

TEST(Target, SpellingsParseBack) {
  for (const Target& target : {cuda_target(7, 5), cuda_target(8, 0), cuda_target(9, 0), cuda_target(10, 3)}) {
    EXPECT_EQ(parse_cuda_target(target.arch), target);
    EXPECT_EQ(parse_cuda_target(to_string(target)), target);
  }
  EXPECT_EQ(parse_cuda_target("sm_100f").arch, "sm_100f");
  EXPECT_EQ(to_string(Target{DeviceType::cpu, "znver5", "+avx2"}), "cpu:znver5");
  EXPECT_EQ(to_string(Target{}), "cpu");
}

TEST(Target, RefusesWhatIsNotACudaTarget) {
  for (const char* text : {"", "cuda", "cuda:", "sm_", "sm_9", "sm_90x", "sm_90ab", "sm_-90", "sm_080", "sm_1000",
                           "compute_90", "sm_80a", "sm_90f", "cuda:0"})
    EXPECT_THAT(value_error([&] { parse_cuda_target(text); }), HasSubstr(std::string("'") + text + "'"));
}

}  // namespace
}  // namespace kiln::test
