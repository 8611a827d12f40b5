#include "core/errors.hpp"

#include <gtest/gtest.h>

#include <string>

#include "tests/support/error_message.hpp"

namespace kiln::test {
namespace {

TEST(Errors, UsageErrorsCarryTheirKind) {
  EXPECT_EQ(usage_error([] { throw_value_error("why"); }), "value: why");
  EXPECT_EQ(usage_error([] { throw_type_error("why"); }), "type: why");
  EXPECT_EQ(usage_error([] { throw_not_implemented("why"); }), "not_implemented: why");
}

TEST(Errors, CompileErrorShowsOpConfigurationAndLog) {
  const CompileError error("add", "BLOCK_SIZE=64", "kernel.hpp:3: error: no");
  EXPECT_STREQ(error.what(), "kernel of op 'add' does not compile (BLOCK_SIZE=64):\nkernel.hpp:3: error: no");
  EXPECT_EQ(error.op(), "add");
  EXPECT_EQ(error.configuration(), "BLOCK_SIZE=64");
  EXPECT_EQ(error.log(), "kernel.hpp:3: error: no");
}

TEST(Errors, DeviceErrorShowsCallCodeAndMeaning) {
  const DeviceError error("cuLaunchKernelEx", 700, "an illegal memory access");
  EXPECT_STREQ(error.what(), "cuLaunchKernelEx failed with code 700: an illegal memory access");
  EXPECT_EQ(error.call(), "cuLaunchKernelEx");
  EXPECT_EQ(error.code(), 700);
  EXPECT_EQ(error.meaning(), "an illegal memory access");
  EXPECT_STREQ(DeviceError("dlopen", 0, "libcuda.so.1 is not there").what(),
               "dlopen failed: libcuda.so.1 is not there");
}

}  // namespace
}  // namespace kiln::test
