#pragma once

#include <gtest/gtest.h>

#include <string>

#include "compiler/compilers.hpp"

namespace kiln::test {

/// Tests that compile for one type of device, of which none need be here.
template <DeviceType kType>
class CompilerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string problem = compiler_problem(kType); !problem.empty()) GTEST_SKIP() << problem;
  }
};

}  // namespace kiln::test
