#pragma once

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "compiler/compilers.hpp"
#include "core/subprocess.hpp"
#include "tests/support/file_text.hpp"
#include "tests/support/scoped_variable.hpp"
#include "tests/support/temporary_directory.hpp"

namespace kiln::test {

/// A command line's arguments: a list of them, or a text that is cut at its spaces.
struct Words : std::vector<std::string> {
  using std::vector<std::string>::vector;
  Words(const std::string& line) {
    std::istringstream stream(line);
    for (std::string word; stream >> word;) push_back(word);
  }
  Words(const char* line) : Words(std::string(line)) {}
  friend Words operator+(Words words, const Words& more) {
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
};

/// The command, which the build puts beside the test.
inline std::string kiln_program() {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path() / "kiln";
}

inline SubprocessResult run_kiln(const Words& arguments) {
  const auto result = run_subprocess(Words{kiln_program()} + arguments);
  if (!result) throw std::runtime_error("there is no " + kiln_program());
  return *result;
}

/// The command as a user meets it: a process with arguments, two streams and an exit status, and a cache of its own.
class KilnProcessTest : public ::testing::Test {
 protected:
  static SubprocessResult kiln(const Words& arguments) { return run_kiln(arguments); }
  /// stderr of a command that must fail with `status`, and print nothing else.
  static std::string error_of(int status, const Words& arguments) {
    SCOPED_TRACE(::testing::PrintToString(static_cast<const std::vector<std::string>&>(arguments)));
    const SubprocessResult result = run_kiln(arguments);
    EXPECT_EQ(result.exit_status, status) << result.standard_error;
    EXPECT_THAT(result.standard_error, ::testing::StartsWith("kiln: error: "));
    EXPECT_THAT(result.standard_output, ::testing::IsEmpty());
    return result.standard_error;
  }
  /// What a command prints that ends with `status`: all of it JSON.
  static nlohmann::json json_of(const Words& arguments, int status = 0) {
    SCOPED_TRACE(::testing::PrintToString(static_cast<const std::vector<std::string>&>(arguments)));
    const SubprocessResult result = run_kiln(arguments + Words{"--json"});
    EXPECT_EQ(result.exit_status, status) << result.standard_error;
    EXPECT_THAT(result.standard_error, ::testing::IsEmpty());
    return nlohmann::json::parse(result.standard_output);
  }
  /// The path of a file of this text.
  std::string save(const std::string& file, const std::string& text) const {
    write_text(directory_.file(file), text);
    return directory_.file(file);
  }

  const TemporaryDirectory directory_;

 private:
  const ScopedVariable cache_{"KILN_CACHE_DIR", directory_.file("cache")};
};

/// Tests that run kernels on the CPU, which a build without the CPU target cannot.
class KilnCpuTest : public KilnProcessTest {
 protected:
  void SetUp() override {
    if (const std::string problem = compiler_problem(DeviceType::cpu); !problem.empty()) GTEST_SKIP() << problem;
  }
};

}  // namespace kiln::test
