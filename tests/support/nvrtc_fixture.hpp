#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "compiler/compilers.hpp"
#include "compiler/nvrtc_compiler.hpp"

namespace kiln::test {

/// Tests of NVRTC's compiler, which need its library and no GPU.
class NvrtcCompiler : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string problem = nvrtc_problem(); !problem.empty()) GTEST_SKIP() << problem;
    compiler_ = make_nvrtc_compiler();
  }
  std::unique_ptr<Compiler> compiler_;
};

}  // namespace kiln::test
