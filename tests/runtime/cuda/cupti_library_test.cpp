// Where libcupti is looked for, and what is said where it is not. No GPU is needed.

#include "runtime/cuda/cupti_library.hpp"

#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/support/matchers.hpp"
#include "tests/support/temporary_directory.hpp"

namespace kiln::test {
namespace {

class CuptiLibraryTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"KILN_CUPTI_PATH", "CUDA_HOME", "CUDA_PATH"}) {
      const char* value = getenv(name);
      before_.push_back({name, value != nullptr ? value : "", value != nullptr});
      unsetenv(name);
    }
  }
  void TearDown() override {
    for (const Variable& one : before_) one.is_set ? setenv(one.name, one.value.c_str(), 1) : unsetenv(one.name);
  }

  struct Variable {
    const char* name;
    std::string value;
    bool is_set;
  };
  std::vector<Variable> before_;
  TemporaryDirectory directory_;
};

TEST_F(CuptiLibraryTest, LooksWhereTheLinkerDoesThenInToolkits) {
  setenv("CUDA_HOME", "/some/cuda", 1);
  setenv("CUDA_PATH", "/other/cuda", 1);
  const std::vector<std::string> candidates = cupti_candidates();
  const auto at = [&](const std::string& path) {
    const auto found = std::find(candidates.begin(), candidates.end(), path);
    EXPECT_NE(found, candidates.end()) << path;
    return found - candidates.begin();
  };
  EXPECT_EQ(at("libcupti.so.13"), 0);
  EXPECT_LT(at("libcupti.so.12"), at("/some/cuda/lib64/libcupti.so.13"));
  EXPECT_LT(at("/some/cuda/extras/CUPTI/lib64/libcupti.so.12"), at("/other/cuda/lib64/libcupti.so.13"));
  EXPECT_LT(at("/other/cuda/lib64/libcupti.so.12"), at("/usr/local/cuda/lib64/libcupti.so.13"));
  EXPECT_LT(at("/usr/local/cuda/lib64/libcupti.so.12"), at("/usr/local/cuda/extras/CUPTI/lib64/libcupti.so.13"));
}

TEST_F(CuptiLibraryTest, TheVariableNamesAFileOrAFolderAndNothingElse) {
  setenv("CUDA_HOME", "/some/cuda", 1);
  setenv("KILN_CUPTI_PATH", "/nowhere/my-cupti.so", 1);
  EXPECT_THAT(cupti_candidates(), ElementsAre("/nowhere/my-cupti.so"));
  const std::string folder = std::filesystem::path(directory_.file("x")).parent_path().string();
  setenv("KILN_CUPTI_PATH", folder.c_str(), 1);
  EXPECT_THAT(cupti_candidates(), ElementsAre(folder + "/libcupti.so.13", folder + "/libcupti.so.12"));
}

TEST_F(CuptiLibraryTest, WhatIsNotThereIsSaidWithAllPlaces) {
  const CuptiLibrary library = open_cupti({"libcupti.so.of-no-version", "/nowhere/libcupti.so.13"});
  EXPECT_EQ(library.handle, nullptr);
  EXPECT_THAT(library.problem, Says("libcupti.so.of-no-version, /nowhere/libcupti.so.13", "KILN_CUPTI_PATH"));
}

TEST_F(CuptiLibraryTest, TakesTheFirstThatLoads) {
  // Any library serves: what is in it is nobody's business here.
  const CuptiLibrary library = open_cupti({"/nowhere/libcupti.so.13", "libc.so.6"});
  EXPECT_NE(library.handle, nullptr);
  EXPECT_EQ(library.problem, "");
}

}  // namespace
}  // namespace kiln::test
