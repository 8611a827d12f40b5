#include "core/absent_target.hpp"

#include <gtest/gtest.h>

#include "compiler/compilers.hpp"
#include "core/errors.hpp"

namespace kiln::test {
namespace {

TEST(AbsentTarget, CompilersSayHowToGetThem) {
  bool has_all = true;
  for (const auto& [type, absence] : {std::pair(DeviceType::cpu, kNoCpuTarget), {DeviceType::cuda, kNoCudaTarget}}) {
    if (compiler_problem(type) != absence) continue;
    has_all = false;
    EXPECT_THROW(compiler_for(type), DeviceError);
  }
  if (has_all) GTEST_SKIP() << "this build leaves no target out";
}

}  // namespace
}  // namespace kiln::test
